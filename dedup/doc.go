// Package dedup decides what happens to a producer's batch: forward it, answer
// it as a duplicate, let it wait, verify it, or refuse it.
//
// It is a pure state machine in the way of a database's consensus core: no
// sockets, no goroutines, no locks and no clock. The caller feeds it events
// ("this batch wants in", "the broker said this", "the connection died") and
// carries out the verdicts. One Table is used by one goroutine at a time; the
// caller owns the lock and does no I/O under it.
//
// Two rules stand above all others:
//
//   - A batch is a duplicate only if a broker said that it is stored. What was
//     merely received or forwarded proves nothing.
//   - In doubt, the broker decides. A batch of which the window can't tell
//     whether it is new is forwarded alone ("asked"), and the broker's own
//     sequence check answers. A miss, an eviction and a restart all mean
//     "ask", never "new" and never "duplicate".
//
// The rules follow Kafka's ProducerStateManager and ProducerAppendInfo
// (KIP-98), with the differences that a proxy needs: a retry waits for its
// original, a producer's second batch waits for the first (KAFKA-15591), and a
// range older than the window is known to be stored where this table saw it
// happen. testdata/*.txt tells each rule as a dialogue.
package dedup
