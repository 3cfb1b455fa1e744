package config

import (
	"fmt"
	"net"
	"strconv"
)

// together checks what no setting can check alone. A setting that is at fault
// itself has its zero value, and no second fault is told for it.
func (c *Config) together(values map[string]string) (faults Faults) {
	if values["UPSTREAM_BROKERS"] == "" {
		faults = append(faults, "UPSTREAM_BROKERS is not set: accepted is "+accepted("UPSTREAM_BROKERS")+", the Kafka cluster's bootstrap addresses")
	}
	if c.MemoryBudgetBytes > 0 && c.MemoryBudgetBytes < c.MaxFrameBytes {
		faults = append(faults, fmt.Sprintf("MEMORY_BUDGET_BYTES=%d is less than MAX_FRAME_BYTES=%d: a request of that size could never be taken", c.MemoryBudgetBytes, c.MaxFrameBytes))
	}
	base, count := int(c.BrokerListenBase), c.BrokerListenCount
	if base > 0 && base+count > 65536 {
		faults = append(faults, fmt.Sprintf("BROKER_LISTEN_BASE=%d and BROKER_LISTEN_COUNT=%d reach past port 65535", base, count))
	}
	host, port := split(c.ListenAddress)
	adminHost, adminPort := split(c.AdminAddress)
	if port == 65535 && values["BROKER_LISTEN_BASE"] == "" {
		faults = append(faults, fmt.Sprintf("LISTEN_ADDRESS=%s leaves no port above it for the brokers: set BROKER_LISTEN_BASE", c.ListenAddress))
	}
	if inRange(port, base, count) {
		faults = append(faults, fmt.Sprintf("LISTEN_ADDRESS=%s lies within the brokers' ports %d–%d (BROKER_LISTEN_BASE, BROKER_LISTEN_COUNT)", c.ListenAddress, base, base+count-1))
	}
	if sameInterface(host, adminHost) {
		if inRange(adminPort, base, count) {
			faults = append(faults, fmt.Sprintf("ADMIN_ADDRESS=%s lies within the brokers' ports %d–%d (BROKER_LISTEN_BASE, BROKER_LISTEN_COUNT)", c.AdminAddress, base, base+count-1))
		}
		if port != 0 && port == adminPort {
			faults = append(faults, fmt.Sprintf("ADMIN_ADDRESS=%s and LISTEN_ADDRESS=%s are one port", c.AdminAddress, c.ListenAddress))
		}
	}
	if c.ListenAddress != "" && c.AdvertisedHost == "" && values["ADVERTISED_HOST"] == "" && unspecified(host) {
		faults = append(faults, fmt.Sprintf("LISTEN_ADDRESS=%s listens on every interface, so clients can't be told where to connect: set ADVERTISED_HOST to the name that they know", c.ListenAddress))
	}
	return faults
}

// unsafe names the settings that let others in, or secrets out.
func (c *Config) unsafe() (warnings []string) {
	if host, _ := split(c.ListenAddress); !loopback(host) {
		warnings = append(warnings, fmt.Sprintf("LISTEN_ADDRESS=%s takes clients from other machines without encryption, and without authentication where UPSTREAM_SASL_MECHANISM is set; a loopback address takes none", c.ListenAddress))
	}
	if host, _ := split(c.AdminAddress); !loopback(host) {
		warnings = append(warnings, fmt.Sprintf("ADMIN_ADDRESS=%s lets other machines read the metrics and stop Oncegate; a loopback address lets none", c.AdminAddress))
	}
	switch c.UpstreamSASLMechanism {
	case "PLAIN", "OAUTHBEARER", "AWS_MSK_IAM":
		if !c.UpstreamTLS {
			warnings = append(warnings, fmt.Sprintf("UPSTREAM_SASL_MECHANISM=%s sends the secret readable over the network: set UPSTREAM_TLS=on", c.UpstreamSASLMechanism))
		}
	}
	return warnings
}

func split(a Address) (host string, port int) {
	host, text, _ := net.SplitHostPort(string(a))
	port, _ = strconv.Atoi(text)
	return host, port
}

func inRange(port, base, count int) bool { return port != 0 && port >= base && port < base+count }

func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// sameInterface says whether listeners on both hosts can be in each other's way.
func sameInterface(a, b string) bool {
	return a == b || unspecified(a) || unspecified(b) || loopback(a) && loopback(b)
}
