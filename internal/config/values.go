package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Address is host:port; the host may be empty.
type Address string

// UnmarshalText is how env/v10 reads it.
func (a *Address) UnmarshalText(b []byte) error {
	_, port, err := net.SplitHostPort(string(b))
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("port %q is not between 0 and 65535", port)
	}
	*a = Address(b)
	return nil
}

// Addresses are host:port, separated by commas.
type Addresses []string

// UnmarshalText is how env/v10 reads them.
func (a *Addresses) UnmarshalText(b []byte) error {
	for _, one := range strings.Split(string(b), ",") {
		var addr Address
		one = strings.TrimSpace(one)
		if err := addr.UnmarshalText([]byte(one)); err != nil {
			return err
		}
		if host, port, _ := net.SplitHostPort(one); host == "" || port == "0" {
			return fmt.Errorf("%q names no broker", one)
		}
		*a = append(*a, one)
	}
	return nil
}

// Port is a TCP port.
type Port uint16

// UnmarshalText is how env/v10 reads it.
func (p *Port) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 10, 16)
	if err == nil && n == 0 {
		err = fmt.Errorf("port 0")
	}
	*p = Port(n)
	return err
}

// Bytes is a size, as a plain number or with the suffix KiB, MiB or GiB.
type Bytes int64

// UnmarshalText is how env/v10 reads it.
func (v *Bytes) UnmarshalText(b []byte) error {
	number, shift := string(b), 0
	for suffix, bits := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if s, ok := strings.CutSuffix(number, suffix); ok {
			number, shift = strings.TrimSpace(s), bits
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > 1<<(62-shift) {
		return fmt.Errorf("%q is not a size", b)
	}
	*v = Bytes(n << shift)
	return nil
}

// Choice is one of the words that the setting accepts.
type Choice string

// Switch is on or off.
type Switch bool

// UnmarshalText is how env/v10 reads it.
func (s *Switch) UnmarshalText(b []byte) error {
	switch string(b) {
	case "on":
		*s = true
	case "off":
		*s = false
	default:
		return fmt.Errorf("%q is neither on nor off", b)
	}
	return nil
}
