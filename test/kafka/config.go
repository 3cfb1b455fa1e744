package kafka

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Options describe a cluster.
type Options struct {
	Version string // V40 or V44
	Brokers int    // their ids are 1, 2, …
	// Controllers are processes of their own; with 0 every broker is a
	// controller too.
	Controllers int
	// Listeners are added to DIRECT and FAULTY: name and security protocol, say
	// SECURE and SASL_SSL. What else they need belongs into Config.
	Listeners map[string]string
	// Config adds to or replaces lines of every server.properties.
	Config map[string]string
	// PerBroker does the same for one broker.
	PerBroker func(id int32) map[string]string
}

// The listeners that every broker has, both in plain text.
const (
	Direct     = "DIRECT"
	Faulty     = "FAULTY"
	controller = "CONTROLLER"
)

// FaultyHost is the host that FAULTY is advertised with.
const FaultyHost = "127.0.0.2"

// firstController is the id of the first controller that is not a broker.
const firstController = 101

// clusterID is any: ports keep clusters apart.
const clusterID = "b25jZWdhdGUtdGVzdHMhIQ"

// listeners returns names and protocols of a broker's listeners.
func (o *Options) listeners() map[string]string {
	all := map[string]string{Direct: "PLAINTEXT", Faulty: "PLAINTEXT"}
	maps.Copy(all, o.Listeners)
	return all
}

// properties is the text of a process's server.properties.
func (c *Cluster) properties(b *Broker) string {
	var roles, listeners, advertised []string
	protocols := []string{controller + ":PLAINTEXT"}
	for name, protocol := range c.options.listeners() {
		protocols = append(protocols, name+":"+protocol)
	}
	for name, port := range b.ports {
		listeners = append(listeners, fmt.Sprintf("%s://127.0.0.1:%d", name, port))
		switch name {
		case controller:
			roles = append(roles, "controller")
		case Faulty:
			advertised = append(advertised, fmt.Sprintf("%s://%s:%d", name, FaultyHost, port))
		default:
			advertised = append(advertised, fmt.Sprintf("%s://127.0.0.1:%d", name, port))
		}
	}
	lines := defaults(c.options.Brokers)
	lines["node.id"] = fmt.Sprint(b.ID)
	lines["listeners"] = strings.Join(listeners, ",")
	lines["listener.security.protocol.map"] = strings.Join(protocols, ",")
	lines["controller.quorum.voters"] = c.voters()
	lines["log.dirs"] = filepath.Join(b.dir, "data")
	if len(advertised) > 0 {
		roles = append(roles, "broker")
		lines["advertised.listeners"] = strings.Join(advertised, ",")
		lines["inter.broker.listener.name"] = Direct
	}
	lines["process.roles"] = strings.Join(roles, ",")
	maps.Copy(lines, c.options.Config)
	if c.options.PerBroker != nil {
		maps.Copy(lines, c.options.PerBroker(b.ID))
	}
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&text, "%s=%s\n", k, lines[k])
	}
	return text.String()
}

func (c *Cluster) voters() string {
	var all []string
	for _, b := range c.nodes() {
		if port, ok := b.ports[controller]; ok {
			all = append(all, fmt.Sprintf("%d@127.0.0.1:%d", b.ID, port))
		}
	}
	return strings.Join(all, ",")
}

func defaults(brokers int) map[string]string {
	replicas := fmt.Sprint(min(3, brokers))
	isr := fmt.Sprint(max(1, min(3, brokers)-1))
	return map[string]string{
		"controller.listener.names": controller,
		"auto.create.topics.enable": "false",
		"min.insync.replicas":       isr,

		"offsets.topic.replication.factor":                 replicas,
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    isr,
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            isr,
		"share.coordinator.state.topic.num.partitions":     "1",
		"group.initial.rebalance.delay.ms":                 "0",

		// A killed broker has to be noticed within a test's patience.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
		"replica.lag.time.max.ms":      "5000",

		// Small machines run three of these.
		"num.network.threads":            "2",
		"num.io.threads":                 "4",
		"background.threads":             "2",
		"log.cleaner.dedupe.buffer.size": "8388608",
	}
}

const log4j = `rootLogger.level=WARN
rootLogger.appenderRefs=out
rootLogger.appenderRef.out.ref=out
appenders=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss,SSS} %p %m (%c{1})%n%throwable{5}
`
