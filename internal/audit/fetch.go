package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchBytes is how much is asked for at a time; three such answers are in
// memory. A broker sends more when one batch is larger.
const fetchBytes = 2 << 20

// Batches reads partition after partition, each in the order of its offsets.
// It ends with the first error. Aborted batches are among them in any case,
// since they take up sequence numbers.
func (t *Topic) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for _, r := range t.Ranges {
			if !t.readRange(ctx, r, yield) {
				return
			}
		}
	}
}

// Entries reads the records of [Topic.Batches]. An entry's bytes may be kept.
func (t *Topic) Entries(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for b, err := range t.Batches(ctx) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if b.Aborted && t.selected.ReadCommitted {
				continue
			}
			for _, e := range b.Entries {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// chunk is one answer of a broker.
type chunk struct {
	raw     []byte
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
	decided bool
	err     error
}

// readRange decodes one answer while the next one is fetched.
func (t *Topic) readRange(ctx context.Context, r Range, yield func(*Batch, error) bool) bool {
	ctx, cancel := context.WithCancel(ctx)
	chunks := make(chan chunk, 1)
	go t.fetchRange(ctx, r, chunks)
	defer func() {
		cancel()
		for range chunks { // until the fetching has ended
		}
	}()
	d := &decoder{r: r, topic: t.Name, plain: t.decoder}
	for c := range chunks {
		if c.err != nil {
			yield(nil, c.err)
			return false
		}
		d.decided = c.decided
		d.aborted = make(map[int64][]int64)
		for _, a := range c.aborted {
			d.aborted[a.ProducerID] = append(d.aborted[a.ProducerID], a.FirstOffset)
		}
		for _, first := range d.aborted {
			slices.Sort(first)
		}
		for raw, rest, ok := cutBatch(c.raw); ok; raw, rest, ok = cutBatch(rest) {
			if lastOffset(raw) < r.Start {
				continue // the broker sends whole batches, and the first may begin earlier
			}
			b, err := d.decode(raw)
			if err != nil {
				yield(nil, err)
				return false
			}
			if b.BaseOffset >= r.End {
				return true
			}
			if !yield(b, nil) {
				return false
			}
		}
	}
	return true
}

// fetchRange fetches a range, and closes chunks at its end.
func (t *Topic) fetchRange(ctx context.Context, r Range, chunks chan<- chunk) {
	defer close(chunks)
	for at := r.Start; at < r.End; {
		// Up to the last stable offset the broker says which transactions were
		// aborted, and holds nothing back.
		decided := at < r.stable
		p, err := t.fetch(ctx, r, at, decided)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			at, err = t.skipRemoved(ctx, r, at)
			if err == nil {
				continue
			}
		}
		var c chunk
		if err != nil {
			c.err = fmt.Errorf("topic %q partition %d offset %d: %w", t.Name, r.Partition, at, explain(err))
		} else {
			c = chunk{raw: p.RecordBatches, aborted: p.AbortedTransactions, decided: decided}
			at = after(p, at)
			if len(c.raw) == 0 {
				at = r.End // see tryFetch
			}
		}
		select {
		case chunks <- c:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// after is the offset after the last whole batch of an answer.
func after(p *kmsg.FetchResponseTopicPartition, at int64) int64 {
	for raw, rest, ok := cutBatch(p.RecordBatches); ok; raw, rest, ok = cutBatch(rest) {
		at = max(at, lastOffset(raw)+1)
	}
	return at
}

// skipRemoved finds where to go on after retention has removed an offset.
func (t *Topic) skipRemoved(ctx context.Context, r Range, at int64) (int64, error) {
	start, err := t.offsets(kadm.NewClient(t.client).ListStartOffsets(ctx, t.Name))
	if err != nil {
		return at, err
	}
	if start[r.Partition] <= at {
		return at, errors.New("the log was cut off here while it was read (unclean leader election?)")
	}
	to := min(start[r.Partition], r.End)
	t.moved.Add(to - at)
	return to, nil
}

// fetch asks the partition's leader, with patience: leaders move, and a new one
// doesn't know the high watermark at first.
func (t *Topic) fetch(ctx context.Context, r Range, at int64, committed bool) (*kmsg.FetchResponseTopicPartition, error) {
	giveUp := time.Now().Add(t.patience)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		p, err := t.tryFetch(ctx, r, at, committed)
		if err == nil || errors.Is(err, kerr.OffsetOutOfRange) || !passes(err) || time.Now().After(giveUp) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		if again := t.lookUp(ctx); again != nil && !passes(again) {
			return nil, again
		}
	}
}

// passes says whether an error may go away by itself.
func passes(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, errForGood) {
		return false
	}
	var code *kerr.Error
	return !errors.As(err, &code) || code.Retriable
}

func (t *Topic) tryFetch(ctx context.Context, r Range, at int64, committed bool) (*kmsg.FetchResponseTopicPartition, error) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition = r.Partition
	p.FetchOffset = at
	p.PartitionMaxBytes = fetchBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = t.Name, t.id
	topic.Partitions = append(topic.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, fetchBytes
	req.SessionEpoch = -1 // no fetch session
	req.Topics = append(req.Topics, topic)
	if committed {
		req.IsolationLevel = 1
	}
	leader := t.leaders[r.Partition]
	if leader < 0 {
		return nil, kerr.LeaderNotAvailable
	}
	answer, err := t.client.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("broker %d: %w", leader, err)
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("broker %d: %w", leader, err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("broker %d answered for other partitions than asked", leader)
	}
	got := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return nil, fmt.Errorf("broker %d: %w", leader, err)
	}
	switch {
	case after(got, at) > at:
		return got, nil
	case got.HighWatermark < r.End:
		return nil, fmt.Errorf("the log was cut off: broker %d has a high watermark of %d, it was %d or more", leader, got.HighWatermark, r.End)
	case len(got.RecordBatches) > 0:
		return nil, fmt.Errorf("broker %d sent %d bytes, less than a batch", leader, len(got.RecordBatches))
	case !t.Compacted():
		return nil, fmt.Errorf("broker %d sent nothing, though its high watermark is %d", leader, got.HighWatermark)
	}
	// Compaction removes tombstones and markers, at the end of a log too.
	return got, nil
}
