package proxy

import (
	"net"

	"golang.org/x/sys/unix"
)

// TCP states that a connection is in once its other side has closed it.
const (
	tcpClose     = 7
	tcpCloseWait = 8
	tcpLastAck   = 9
	tcpClosing   = 11
)

// clientGone says whether the other side has closed the connection, whatever
// it sent before that is not read yet.
func clientGone(conn net.Conn) bool {
	if tlsConn, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = tlsConn.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	gone := true
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		switch info.State {
		case tcpClose, tcpCloseWait, tcpLastAck, tcpClosing:
		default:
			gone = false
		}
	})
	return gone
}
