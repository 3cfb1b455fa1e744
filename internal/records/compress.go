package records

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[kgo.CompressionCodecType]kgo.CompressionCodec{
	kgo.CodecGzip: kgo.GzipCompression(), kgo.CodecSnappy: kgo.SnappyCompression(),
	kgo.CodecLz4: kgo.Lz4Compression(), kgo.CodecZstd: kgo.ZstdCompression(),
}

// compress encodes raw with one codec.
func compress(raw []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	chosen, ok := codecs[codec]
	if !ok {
		return nil, fmt.Errorf("compression codec %d is unknown", codec)
	}
	c, err := kgo.DefaultCompressor(chosen)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	out, got := c.Compress(&buf, raw)
	if got != codec {
		return nil, fmt.Errorf("compression codec %d was not applied", codec)
	}
	return bytes.Clone(out), nil
}
