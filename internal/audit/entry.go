package audit

import "strconv"

// Entry is a record as the log holds it.
type Entry struct {
	Partition int32
	Offset    int64
	Timestamp int64 // milliseconds
	Key       []byte
	Value     []byte
	Headers   []Header

	ProducerID int64 // −1 for none
	Epoch      int16
	Sequence   int32 // of this record; −1 for none

	Aborted bool // its transaction was aborted: no consumer that reads committed sees it
	Open    bool // its transaction is still open
}

// Header is a record header.
type Header struct {
	Key   string
	Value []byte
}

// Place is where a record lies.
type Place struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

func (p Place) String() string {
	return strconv.Itoa(int(p.Partition)) + "/" + strconv.FormatInt(p.Offset, 10)
}

// Place is where the entry lies.
func (e *Entry) Place() Place { return Place{e.Partition, e.Offset} }
