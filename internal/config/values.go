package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Address is host:port; the host may be empty.
type Address string

// UnmarshalText is how env/v10 reads it.
func (a *Address) UnmarshalText(b []byte) error {
	host, port, err := net.SplitHostPort(string(b))
	if err != nil {
		return err
	}
	if host != "" && !isHost(host) {
		return fmt.Errorf("%q is no host", host)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("port %q is not between 0 and 65535", port)
	}
	*a = Address(b)
	return nil
}

// isHost says whether text can be a host name or an IP address.
func isHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '-' && r != '.' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
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
		if host, port := split(addr); host == "" || port == 0 {
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

// File is the path of a file that exists.
type File string

// Secret is never printed: convert it to a string to use it.
type Secret string

const redacted = "[redacted]"

func (Secret) String() string   { return redacted }
func (Secret) GoString() string { return redacted }

// Words are separated by spaces or commas.
type Words []string

// UnmarshalText is how env/v10 reads them.
func (w *Words) UnmarshalText(b []byte) error {
	*w = strings.FieldsFunc(string(b), func(r rune) bool { return r == ' ' || r == ',' })
	return nil
}

// Pairs are name=value, separated by commas.
type Pairs map[string]string

// UnmarshalText is how env/v10 reads them.
func (p *Pairs) UnmarshalText(b []byte) error {
	*p = make(Pairs)
	for _, one := range strings.Split(string(b), ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(one), "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is not name=value", one)
		}
		(*p)[name] = value
	}
	return nil
}
