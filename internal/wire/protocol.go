package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// APIKey is one line of the protocol table: what Oncegate does with an api.
type APIKey struct {
	Key       int16
	Name      string
	Min       int16  // the oldest version that is served, where the upstream does
	Max       int16  // the newest version that clients are offered, or that is known
	Handling  string // deduplicated, rewritten, read, streamed or passed
	Addresses string // the response's fields that carry broker addresses
}

// Protocol returns the table, one line for each api key known. Keys that are
// not in it pass untouched.
func Protocol() []APIKey {
	var table []APIKey
	for key := range apis {
		if !apis[key].known {
			continue
		}
		line := APIKey{Key: int16(key), Name: kmsg.NameForKey(int16(key)), Max: apis[key].max, Handling: "passed"}
		if limit, ok := highest(int16(key)); ok {
			line.Max = min(line.Max, limit)
			line.Handling = "rewritten"
		}
		switch kmsg.Key(key) {
		case kmsg.Produce:
			line.Min, line.Handling = MinProduce, "deduplicated"
		case kmsg.InitProducerID, kmsg.EndTxn:
			line.Handling = "read"
		case kmsg.Fetch:
			line.Handling = "streamed"
		}
		if a, ok := addressed[kmsg.Key(key)]; ok && line.Max >= a.from {
			line.Addresses = a.fields
		}
		table = append(table, line)
	}
	return table
}
