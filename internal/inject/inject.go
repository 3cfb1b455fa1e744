package inject

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/config"
)

// outcome is what became of a review, as the metric says it.
type outcome string

const (
	injected outcome = "injected"
	already  outcome = "already"  // it has the sidecar
	skipped  outcome = "skipped"  // none fits, and the pod was told
	labelled outcome = "labelled" // a namespace
	refused  outcome = "refused"
)

// answer is what a webhook says of an object that it lets pass.
type answer struct {
	outcome  outcome
	patch    []operation
	warnings []string
}

// pod decides what becomes of a pod. byNamespace says that its namespace asks,
// not the pod itself. An error refuses the pod, and is for its author to read.
func (s *template) pod(p *pod, byNamespace bool) (*answer, error) {
	if says := p.Metadata.says(); !byNamespace && says != "true" {
		return nil, fmt.Errorf("%s is %q: accepted is true or false", annotationInject, says)
	}
	if _, mirror := p.Metadata.Annotations["kubernetes.io/config.mirror"]; mirror {
		return skip("the pod is a node's own (static), which can't be changed here: write the sidecar into its file"), nil
	}
	if p.windows() {
		return skip("the pod is for Windows nodes, which Oncegate has no image for: it starts without a sidecar"), nil
	}
	if p.hasContainer(containerName) {
		return nil, fmt.Errorf("the pod has a container named %s, which is the name of the sidecar: give it another", containerName)
	}
	w, err := readWishes(p.Metadata.Annotations)
	if err != nil {
		return nil, err
	}
	if p.Spec.HostNetwork && (w.settings["LISTEN_ADDRESS"] == "" || w.settings["ADMIN_ADDRESS"] == "") {
		// Such pods of one node share its ports, and everyone on the node could
		// write through the sidecar.
		if byNamespace {
			return skip("the pod uses its node's network, where the sidecar's ports could be taken: it starts without a sidecar"), nil
		}
		return nil, fmt.Errorf("the pod uses its node's network (hostNetwork), where the sidecar's ports could be taken, and everyone on the node could use them: choose free ones by the annotations %sLISTEN_ADDRESS (such as 127.0.0.1:19092) and %sADMIN_ADDRESS (such as :19191)", settingPrefix, settingPrefix)
	}
	for name := range w.containers {
		if !p.hasContainer(name) && p.initContainer(name) < 0 {
			return nil, fmt.Errorf("annotation %s: the pod has no container %s", annotationFor, name)
		}
	}
	if at := p.initContainer(containerName); at >= 0 {
		return s.again(p, w, at)
	}
	return s.first(p, w)
}

func skip(why string) *answer {
	return &answer{outcome: skipped, warnings: []string{"Oncegate: " + why}}
}

// first injects the sidecar.
func (s *template) first(p *pod, w *wishes) (*answer, error) {
	at, err := s.place(p, w)
	if err != nil {
		return nil, err
	}
	c, settings := s.containerFor(w)
	if settings[upstreamBrokersVar] == "" && len(w.configMaps)+len(w.secrets) == 0 {
		return nil, fmt.Errorf("no Kafka cluster is named: set the annotation %s, or upstream.brokers of the chart", annotationBrokers)
	}
	admin, err := portOf("ADMIN_ADDRESS", settings)
	if err != nil {
		return nil, err
	}
	if host, _, _ := net.SplitHostPort(settings["ADMIN_ADDRESS"]); loopback(host) {
		return nil, fmt.Errorf("ADMIN_ADDRESS=%s can't be reached by Kubernetes' probes: leave its host empty", settings["ADMIN_ADDRESS"])
	}
	setAdminPort(c, admin)

	a := &answer{outcome: injected}
	if a.patch, err = bootstrap(p, w, settings, at); err != nil {
		return nil, err
	}
	if p.Spec.InitContainers == nil {
		a.patch = append(a.patch, operation{"add", "/spec/initContainers", []any{c}})
	} else {
		a.patch = append(a.patch, operation{"add", "/spec/initContainers/" + strconv.Itoa(at), c})
	}
	fresh := p.Spec.Volumes == nil
	for _, v := range s.volumesFor(w) {
		switch name, _ := v["name"].(string); {
		case p.hasVolume(name):
		case fresh:
			a.patch = append(a.patch, operation{"add", "/spec/volumes", []any{v}})
			fresh = false
		default:
			a.patch = append(a.patch, operation{"add", "/spec/volumes/-", v})
		}
	}
	a.patch = append(a.patch, setLabel(p.Metadata.Labels, labelInjected, "true")...)
	a.warnings = warnings(p, w, settings, admin)
	return a, nil
}

// again adds nothing but what containers lack that came after the sidecar, from
// other webhooks.
func (s *template) again(p *pod, w *wishes, at int) (*answer, error) {
	if p.Spec.InitContainers[at].RestartPolicy != "Always" {
		return nil, fmt.Errorf("the pod has an init container named %s, which is the name of the sidecar: give it another", containerName)
	}
	settings := make(map[string]string)
	for _, v := range p.Spec.InitContainers[at].Env {
		settings[v.Name] = v.Value
	}
	patch, err := bootstrap(p, w, settings, at+1)
	if err != nil {
		return nil, err
	}
	patch = append(patch, setLabel(p.Metadata.Labels, labelInjected, "true")...)
	return &answer{outcome: already, patch: patch}, nil
}

// place returns where among the init containers the sidecar goes: first, since
// others may want Kafka, but after those that bring the network.
func (s *template) place(p *pod, w *wishes) (int, error) {
	at := 0
	for _, name := range w.startAfter {
		if p.initContainer(name) < 0 {
			return 0, fmt.Errorf("annotation %s: the pod has no init container %s", annotationAfter, name)
		}
	}
	for _, name := range slices.Concat(s.StartAfter, w.startAfter) {
		at = max(at, p.initContainer(name)+1)
	}
	return at, nil
}

// bootstrap sets the variables that hold Oncegate's address in containers and
// in the init containers from first on.
func bootstrap(p *pod, w *wishes, settings map[string]string, first int) (patch []operation, err error) {
	if len(w.bootstrap) == 0 {
		return nil, nil
	}
	port, err := portOf("LISTEN_ADDRESS", settings)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(settings["LISTEN_ADDRESS"])
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	address := net.JoinHostPort(host, strconv.Itoa(port))
	set := func(path string, containers []container, from int) {
		for i := from; i < len(containers); i++ {
			c := &containers[i]
			if len(w.containers) > 0 && !w.containers[c.Name] || c.RestartPolicy == "Always" && !w.containers[c.Name] {
				continue
			}
			patch = append(patch, c.set(fmt.Sprintf("%s/%d/env", path, i), w.bootstrap, address)...)
		}
	}
	set("/spec/containers", p.Spec.Containers, 0)
	set("/spec/initContainers", p.Spec.InitContainers, first)
	return patch, nil
}

// set gives a container variables with one value. They come first, so that the
// container's own may refer to them.
func (c *container) set(path string, names []string, value string) (patch []operation) {
	if len(c.Env) == 0 {
		patch = append(patch, operation{"add", path, []any{}})
	}
	added := 0
	for _, name := range names {
		want := variable{Name: name, Value: value}
		switch i := slices.IndexFunc(c.Env, func(v variable) bool { return v.Name == name }); {
		case i < 0:
			patch = append(patch, operation{"add", path + "/0", want})
			added++
		case c.Env[i].Value != value || c.Env[i].ValueFrom != nil:
			patch = append(patch, operation{"replace", fmt.Sprintf("%s/%d", path, i+added), want})
		}
	}
	return patch
}

func portOf(name string, settings map[string]string) (int, error) {
	_, text, err := net.SplitHostPort(settings[name])
	if err != nil {
		return 0, fmt.Errorf("%s=%q is not host:port", name, settings[name])
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("%s=%q has no port from 1 to 65535", name, settings[name])
	}
	return port, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// warnings are what the pod's author should know; kubectl prints them.
func warnings(p *pod, w *wishes, settings map[string]string, admin int) (all []string) {
	listen, _ := portOf("LISTEN_ADDRESS", settings)
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.ContainerPort == listen || port.ContainerPort == admin {
				all = append(all, fmt.Sprintf("container %s has port %d, where the sidecar listens as well", p.Spec.Containers[i].Name, port.ContainerPort))
			}
		}
	}
	drain, err := time.ParseDuration(settings["DRAIN_TIMEOUT"])
	if grace := p.Spec.TerminationGracePeriodSeconds; err == nil && grace != nil && time.Duration(*grace)*time.Second < drain {
		all = append(all, fmt.Sprintf("terminationGracePeriodSeconds=%d is less than DRAIN_TIMEOUT=%s: the sidecar may be killed before what is in flight is answered", *grace, drain))
	}
	// Files and what a ConfigMap holds can't be judged here: only names are.
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.settings)) {
		names = append(names, name+"="+w.settings[name])
	}
	_, misspelt, _ := config.Load(names)
	for _, warning := range misspelt {
		if strings.Contains(warning, "is not a setting") {
			all = append(all, warning)
		}
	}
	for i := range all {
		all[i] = "Oncegate: " + all[i]
	}
	return all
}
