package config

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v10"
)

// Faults are all faults of a configuration, each a line that names the
// variable, its value and what is accepted. They tell no secret.
type Faults []string

func (f Faults) Error() string {
	return fmt.Sprintf("%d of Oncegate's environment variables can't be used:\n  %s", len(f), strings.Join(f, "\n  "))
}

// Load reads the settings from environ, as os.Environ gives it. The error, if
// any, is Faults. Warnings name variables that look like misspelt settings, and
// settings that are not safe.
func Load(environ []string) (c Config, warnings []string, err error) {
	values := make(map[string]string, len(environ))
	for _, kv := range environ {
		// An empty variable is an unset one: charts and shells make no
		// difference.
		if k, v, _ := strings.Cut(kv, "="); v != "" {
			values[k] = v
		} else {
			delete(values, k)
		}
	}
	var faults Faults
	for i := range settings {
		faults = append(faults, settings[i].parse(&c, values)...)
	}
	c.derive(values)
	faults = append(faults, c.together(values)...)
	faults = append(faults, tlsFaults(values)...)
	faults = append(faults, saslFaults(&c, values)...)
	warnings = misspelt(values)
	if len(faults) > 0 {
		return Config{}, warnings, faults
	}
	return c, append(warnings, c.unsafe()...), nil
}

// parse reads one setting by env/v10. One at a time, so that each fault can be
// told with its variable and value.
func (s *setting) parse(c *Config, values map[string]string) Faults {
	if values[s.name] == "" && s.field.Tag.Get("envDefault") == "" {
		return nil
	}
	one := reflect.New(reflect.StructOf([]reflect.StructField{s.field}))
	// Its own text holds Go's type names: ours says what is accepted.
	if err := env.ParseWithOptions(one.Interface(), env.Options{Environment: values}); err != nil {
		return Faults{s.fault(values[s.name])}
	}
	v := one.Elem().Field(0)
	if !s.allowed(v) {
		return Faults{s.fault(values[s.name])}
	}
	reflect.ValueOf(c).Elem().FieldByName(s.field.Name).Set(v)
	return nil
}

// derive sets what follows from other settings where it is not set.
func (c *Config) derive(values map[string]string) {
	if values["BROKER_LISTEN_BASE"] == "" {
		if _, port, err := net.SplitHostPort(string(c.ListenAddress)); err == nil {
			switch n, _ := strconv.Atoi(port); n {
			case 0: // any free port for the bootstrap listener
				c.BrokerListenBase = 9093
			case 65535: // together tells it
			default:
				c.BrokerListenBase = Port(n + 1)
			}
		}
	}
	if c.UpstreamSASLAWSRegion == "" {
		c.UpstreamSASLAWSRegion = values["AWS_REGION"]
	}
	if c.UpstreamSASLKerberosConfigFile == "" {
		c.UpstreamSASLKerberosConfigFile = "/etc/krb5.conf"
	}
}

// misspelt names variables that no setting has but that look like one.
func misspelt(values map[string]string) (warnings []string) {
	for name := range values {
		if isSetting(name) || kubernetesService(name) {
			continue
		}
		for _, prefix := range prefixes() {
			if strings.HasPrefix(name, prefix) {
				warnings = append(warnings, fmt.Sprintf("%s is not a setting of Oncegate; is %s meant?", name, nearest(name)))
				break
			}
		}
	}
	slices.Sort(warnings)
	return warnings
}

// kubernetesService says whether Kubernetes injects a variable of this form for
// every Service of a namespace.
func kubernetesService(name string) bool {
	return strings.HasSuffix(name, "_PORT") || strings.HasSuffix(name, "_SERVICE_HOST") ||
		strings.Contains(name, "_SERVICE_PORT") || strings.Contains(name, "_PORT_")
}
