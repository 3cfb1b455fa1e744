// Package wire reads and edits Kafka's protocol where Oncegate needs to: Produce
// requests and answers in place and without allocation, and everything else
// through kmsg.
//
// A frame is one request or response without the 4-byte length that precedes it
// on the wire. All positions are offsets into a frame, and slices returned
// alias it: they are valid as long as the frame's memory is.
package wire
