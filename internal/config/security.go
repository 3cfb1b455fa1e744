package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// tlsFaults checks UPSTREAM_TLS and its companions.
func tlsFaults(values map[string]string) (faults Faults) {
	if v := values["UPSTREAM_TLS"]; v == "" || v == "off" {
		for _, s := range settings {
			if strings.HasPrefix(s.name, "UPSTREAM_TLS_") && values[s.name] != "" {
				faults = append(faults, fmt.Sprintf("%s is set, but UPSTREAM_TLS=off: set it on, or nothing is encrypted", s.name))
			}
		}
	}
	if (values["UPSTREAM_TLS_CERT_FILE"] == "") != (values["UPSTREAM_TLS_KEY_FILE"] == "") {
		faults = append(faults, "UPSTREAM_TLS_CERT_FILE and UPSTREAM_TLS_KEY_FILE: one is set without the other")
	}
	return faults
}

// rule says which variables belong together.
type rule struct {
	needs []string
	oneOf []string
	may   []string
}

// saslRules hold for a mechanism, and for a variable that brings others.
var saslRules = map[string]rule{
	"PLAIN":         {needs: []string{"USER"}, oneOf: []string{"PASSWORD", "PASSWORD_FILE"}},
	"SCRAM-SHA-256": {needs: []string{"USER"}, oneOf: []string{"PASSWORD", "PASSWORD_FILE"}},
	"SCRAM-SHA-512": {needs: []string{"USER"}, oneOf: []string{"PASSWORD", "PASSWORD_FILE"}},
	"OAUTHBEARER":   {oneOf: []string{"TOKEN_FILE", "TOKEN_COMMAND", "TOKEN_URL"}, may: []string{"EXTENSIONS"}},
	"TOKEN_URL":     {needs: []string{"CLIENT_ID"}, oneOf: []string{"CLIENT_SECRET", "CLIENT_SECRET_FILE"}, may: []string{"SCOPES"}},
	"AWS_MSK_IAM":   {may: []string{"AWS_REGION"}},
	"GSSAPI": {
		needs: []string{"USER", "KERBEROS_REALM"},
		oneOf: []string{"KERBEROS_KEYTAB_FILE", "KERBEROS_CCACHE_FILE", "PASSWORD", "PASSWORD_FILE"},
		may:   []string{"KERBEROS_SERVICE", "KERBEROS_CONFIG_FILE"},
	},
}

// saslFaults checks UPSTREAM_SASL_MECHANISM and its companions.
func saslFaults(c *Config, values map[string]string) (faults Faults) {
	const prefix = "UPSTREAM_SASL_"
	set := make(map[string]bool)
	for _, s := range settings {
		if name, ok := strings.CutPrefix(s.name, prefix); ok && values[s.name] != "" && name != "MECHANISM" {
			set[name] = true
		}
	}
	mechanism := string(c.UpstreamSASLMechanism)
	if mechanism == "" {
		if values[prefix+"MECHANISM"] == "" && len(set) > 0 {
			faults = append(faults, fmt.Sprintf("UPSTREAM_SASL_MECHANISM is not set, but %s is: accepted is %s", prefix+slices.Sorted(maps.Keys(set))[0], accepted("UPSTREAM_SASL_MECHANISM")))
		}
		return faults
	}
	unused := maps.Clone(set)
	apply := func(of, key string) {
		r := saslRules[key]
		for _, name := range r.needs {
			delete(unused, name)
			if !set[name] {
				faults = append(faults, fmt.Sprintf("%s needs %s", of, prefix+name))
			}
		}
		var given []string
		for _, name := range r.oneOf {
			delete(unused, name)
			if set[name] {
				given = append(given, prefix+name)
			}
		}
		switch {
		case len(given) > 1:
			faults = append(faults, fmt.Sprintf("%s are set: set one of them", strings.Join(given, " and ")))
		case len(given) == 0 && len(r.oneOf) > 0:
			faults = append(faults, fmt.Sprintf("%s needs %s", of, prefix+strings.Join(r.oneOf, " or "+prefix)))
		}
		for _, name := range r.may {
			delete(unused, name)
		}
	}
	apply("UPSTREAM_SASL_MECHANISM="+mechanism, mechanism)
	if mechanism == "OAUTHBEARER" && set["TOKEN_URL"] {
		apply("UPSTREAM_SASL_TOKEN_URL", "TOKEN_URL")
		if !safeURL(string(c.UpstreamSASLTokenURL)) {
			faults = append(faults, "UPSTREAM_SASL_TOKEN_URL can't be used: accepted is an https URL without a user, or http to a loopback host")
		}
	}
	if mechanism == "AWS_MSK_IAM" && c.UpstreamSASLAWSRegion == "" {
		faults = append(faults, "UPSTREAM_SASL_MECHANISM=AWS_MSK_IAM needs UPSTREAM_SASL_AWS_REGION or AWS_REGION")
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		faults = append(faults, fmt.Sprintf("%s is set, but UPSTREAM_SASL_MECHANISM=%s does not use it", prefix+name, mechanism))
	}
	return faults
}

// safeURL says whether a client secret may be sent there.
func safeURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname())
}
