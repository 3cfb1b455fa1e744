// Package audit reads a topic back and says what is wrong with it.
//
// The [Checker] knows what a workload wrote and what it was told: it compares a
// [History] of sends and acknowledgements with the log and finds what was lost,
// stored twice, reordered, or acknowledged with the wrong offset.
//
// The [Auditor] knows nothing but the log: it finds duplicates, gaps and order
// breaks by producer id and sequence, by a key in a header, or by content.
//
// Both are fed by a [Topic], which streams a log with its batch headers.
package audit
