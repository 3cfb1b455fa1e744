package audit

import (
	"encoding/binary"

	"github.com/oncegate/oncegate/internal/wire"
)

// sumBatch renews a batch's CRC.
func sumBatch(b []byte) { binary.BigEndian.PutUint32(b[17:], wire.SumBatch(b)) }
