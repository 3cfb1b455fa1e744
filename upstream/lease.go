package upstream

import (
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// ErrNoProducerIDs says that the upstream issues no producer ids to Oncegate's
// principal, or none at all. Trying again will not help.
var ErrNoProducerIDs = errors.New("the upstream gives no producer id")

// LeaseProducerID takes a producer id of the upstream's own, with its epoch
// (InitProducerId, KIP-98), for a producer that sends none. Such an id can't be
// invented: it could be another's. It takes at most twice Config.DialTimeout.
func (c *Cluster) LeaseProducerID() (id int64, epoch int16, err error) {
	limit := 2 * c.cfg.DialTimeout
	r, err := patiently(limit, func() (*sarama.InitProducerIDResponse, error) { return c.awaitProducerID(limit) })
	switch {
	case err == nil:
		return r.ProducerID, r.ProducerEpoch, nil
	case errors.Is(err, sarama.ErrClusterAuthorizationFailed):
		return 0, 0, fmt.Errorf("%w: Oncegate's principal needs IDEMPOTENT_WRITE on the cluster, or WRITE on a topic", ErrNoProducerIDs)
	case errors.Is(err, sarama.ErrUnsupportedVersion):
		return 0, 0, fmt.Errorf("%w: it does not know InitProducerId", ErrNoProducerIDs)
	}
	return 0, 0, fmt.Errorf("no producer id from the upstream: %w", err)
}

func (c *Cluster) initProducerID() (*sarama.InitProducerIDResponse, error) {
	client, err := c.connected()
	if err != nil {
		return nil, err
	}
	r, err := client.InitProducerID()
	if err != nil {
		// It has forgotten each broker that it could not ask.
		if !errors.Is(err, sarama.ErrUnsupportedVersion) {
			err = c.describe(err)
			c.drop(client)
			c.Refresh()
		}
		return nil, err
	}
	if r.Err != sarama.ErrNoError {
		return nil, r.Err
	}
	return r, nil
}

// awaitProducerID asks again while the broker itself waits for the controller
// to give it a block of producer ids: after its start, and after each thousand.
func (c *Cluster) awaitProducerID(limit time.Duration) (*sarama.InitProducerIDResponse, error) {
	deadline := time.Now().Add(limit)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		r, err := c.initProducerID()
		// The broker's words for it: COORDINATOR_LOAD_IN_PROGRESS.
		if !errors.Is(err, sarama.ErrOffsetsLoadInProgress) || time.Now().Add(wait).After(deadline) {
			return r, err
		}
		time.Sleep(wait)
	}
}
