package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Selection says what of a topic is read. The zero value stands for all that
// lies below the high watermarks when the topic is opened.
type Selection struct {
	Partitions []int32 // empty: all

	From int64 // the first offset; where the log starts later, from there
	To   int64 // the offset after the last one; 0: no limit

	// Since and Until are looked up in the broker's time index: reading starts
	// at the first offset with a timestamp of at least Since, and ends before
	// the first one with at least Until. Timestamps that producers set need not
	// rise with the offsets.
	Since, Until time.Time

	// ReadCommitted leaves out aborted records, and stops at the last stable
	// offset.
	ReadCommitted bool
}

// Range is what is read of a partition.
type Range struct {
	Partition int32 `json:"partition"`
	Start     int64 `json:"start"`     // the first offset
	End       int64 `json:"end"`       // the offset after the last one
	LogStart  int64 `json:"log_start"` // where the partition's log starts
	stable    int64 // from here on it is undecided what transactions become
}

// Topic is a topic of a cluster, opened for reading. It reads what lay below
// the high watermarks at that time.
type Topic struct {
	Name   string
	Ranges []Range
	// Cleanup is the topic's cleanup.policy: "delete", "compact" or both with a
	// comma between; empty where the broker doesn't tell.
	Cleanup string

	client   *kgo.Client
	id       [16]byte
	selected Selection
	leaders  map[int32]int32
	// patience is how long a broker may fail before reading is given up.
	patience time.Duration
	decoder  kgo.Decompressor
	moved    atomic.Int64
}

// Compacted says whether records may be missing because of log compaction.
func (t *Topic) Compacted() bool { return strings.Contains(t.Cleanup, "compact") }

// Total is how many offsets are read.
func (t *Topic) Total() int64 {
	var n int64
	for _, r := range t.Ranges {
		n += r.End - r.Start
	}
	return n
}

// Moved is how many offsets retention removed while they were about to be read.
func (t *Topic) Moved() int64 { return t.moved.Load() }

// OpenTopic looks a topic up. The client needs the permissions Describe and
// Read on the topic; with DescribeConfigs, compaction is recognised too.
func OpenTopic(ctx context.Context, client *kgo.Client, name string, s Selection) (*Topic, error) {
	t := &Topic{Name: name, client: client, selected: s, decoder: kgo.DefaultDecompressor(), patience: 30 * time.Second}
	if err := t.lookUp(ctx); err != nil {
		return nil, err
	}
	if err := t.choose(s.Partitions); err != nil {
		return nil, err
	}
	if err := t.bound(ctx, s); err != nil {
		return nil, err
	}
	t.Cleanup = cleanupPolicy(ctx, client, name)
	return t, nil
}

// errForGood marks errors that asking again doesn't help against.
var errForGood = errors.New("")

// lookUp learns the topic's id, its partitions and their leaders. It asks each
// time; kadm would answer with what it knew seconds ago.
func (t *Topic) lookUp(ctx context.Context) error {
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &t.Name
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, t.client)
	if err != nil {
		return fmt.Errorf("metadata of topic %q: %w", t.Name, err)
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("metadata of topic %q: the broker told of %d topics", t.Name, len(resp.Topics))
	}
	got := resp.Topics[0]
	switch err := kerr.ErrorForCode(got.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("topic %q doesn't exist in this cluster (or its Describe permission is missing)", t.Name)
	case err != nil:
		return fmt.Errorf("topic %q: %w", t.Name, explain(err))
	case t.leaders != nil && t.id != got.TopicID:
		return fmt.Errorf("topic %q was deleted and made anew while it was read%w", t.Name, errForGood)
	}
	t.id = got.TopicID
	t.leaders = make(map[int32]int32)
	for _, p := range got.Partitions {
		t.leaders[p.Partition] = p.Leader
	}
	return nil
}

func (t *Topic) choose(partitions []int32) error {
	all := make([]int32, 0, len(t.leaders))
	for p := range t.leaders {
		all = append(all, p)
	}
	slices.Sort(all)
	if len(partitions) == 0 {
		partitions = all
	}
	wanted := slices.Compact(slices.Sorted(slices.Values(partitions)))
	for _, p := range wanted {
		if !slices.Contains(all, p) {
			return fmt.Errorf("topic %q has no partition %d; it has %d to %d", t.Name, p, all[0], all[len(all)-1])
		}
		t.Ranges = append(t.Ranges, Range{Partition: p})
	}
	return nil
}

// bound fixes the offsets of the ranges.
func (t *Topic) bound(ctx context.Context, s Selection) error {
	admin := kadm.NewClient(t.client)
	start, err := t.offsets(admin.ListStartOffsets(ctx, t.Name))
	if err != nil {
		return err
	}
	end, err := t.offsets(admin.ListEndOffsets(ctx, t.Name))
	if err != nil {
		return err
	}
	stable, err := t.offsets(admin.ListCommittedOffsets(ctx, t.Name))
	if err != nil {
		return err
	}
	var since, until map[int32]int64
	if !s.Since.IsZero() {
		if since, err = t.offsets(admin.ListOffsetsAfterMilli(ctx, s.Since.UnixMilli(), t.Name)); err != nil {
			return err
		}
	}
	if !s.Until.IsZero() {
		if until, err = t.offsets(admin.ListOffsetsAfterMilli(ctx, s.Until.UnixMilli(), t.Name)); err != nil {
			return err
		}
	}
	for i := range t.Ranges {
		r := &t.Ranges[i]
		p := r.Partition
		r.LogStart = start[p]
		r.Start = max(r.LogStart, s.From, since[p])
		r.End = end[p]
		if s.To > 0 {
			r.End = min(r.End, s.To)
		}
		if until != nil {
			r.End = min(r.End, until[p])
		}
		if s.ReadCommitted {
			r.End = min(r.End, stable[p])
		}
		r.Start = min(r.Start, r.End)
		r.stable = min(stable[p], r.End)
	}
	return nil
}

func (t *Topic) offsets(listed kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err != nil {
		return nil, fmt.Errorf("offsets of topic %q: %w", t.Name, explain(err))
	}
	m := make(map[int32]int64)
	for _, r := range t.Ranges {
		o, ok := listed.Lookup(t.Name, r.Partition)
		if !ok {
			return nil, fmt.Errorf("offsets of topic %q: the broker left out partition %d", t.Name, r.Partition)
		}
		if o.Err != nil {
			return nil, fmt.Errorf("offsets of topic %q partition %d: %w", t.Name, r.Partition, explain(o.Err))
		}
		m[r.Partition] = o.Offset
	}
	return m, nil
}

// cleanupPolicy may fail for want of a permission, which nothing else needs.
func cleanupPolicy(ctx context.Context, client *kgo.Client, topic string) string {
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return ""
	}
	c, err := configs.On(topic, nil)
	if err != nil || c.Err != nil {
		return ""
	}
	for _, kv := range c.Configs {
		if kv.Key == "cleanup.policy" {
			return kv.MaybeValue()
		}
	}
	return ""
}

// explain adds what to do to errors whose text doesn't tell.
func explain(err error) error {
	var what string
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		what = "grant Read and Describe on the topic"
	case errors.Is(err, kerr.LeaderNotAvailable):
		what = "the partition has no leader; are its brokers up?"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, what)
}
