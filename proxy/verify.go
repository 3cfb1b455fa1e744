package proxy

import (
	"go.uber.org/zap"

	"github.com/oncegate/oncegate/dedup"
)

// verify asks the partition's leader what it has of the producer, because the
// window's word is of another leadership: an unclean election may have
// truncated what was stored. Where it can't tell (an old broker, no READ on
// the topic), the window is forgotten and the batch itself is the question.
func (s *session) verify(b *dedup.Batch) {
	s.proxy.stats.Verified.Add(1)
	name := s.proxy.topics.name(s.verifyTopic, s.verifyID)
	epoch, last, found, err := s.proxy.cfg.Cluster.DescribeProducer(name, b.Partition, b.ProducerID)
	if err != nil || !found {
		s.log.Debug("a window can't be verified; the broker is asked with the batch itself",
			zap.String("topic", name), zap.Int32("partition", b.Partition), zap.Int64("producer_id", b.ProducerID), zap.Error(err))
		s.proxy.windows.forget(b.Key)
		return
	}
	s.proxy.windows.confirm(b.Key, b.Leader, epoch, last)
}
