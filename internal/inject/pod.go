package inject

import "encoding/json"

// metadata is what is read of an object's metadata.
type metadata struct {
	Labels      map[string]string
	Annotations map[string]string
}

// says returns what an object says about its injection; the annotation counts
// more than the label.
func (m *metadata) says() string {
	if value, ok := m.Annotations[annotationInject]; ok {
		return value
	}
	return m.Labels[annotationInject]
}

// pod is what is read of a pod.
type pod struct {
	Metadata metadata
	Spec     struct {
		HostNetwork                   bool
		OS                            struct{ Name string }
		NodeSelector                  map[string]string
		TerminationGracePeriodSeconds *int64
		InitContainers                []container
		Containers                    []container
		Volumes                       []struct{ Name string }
	}
}

// container is what is read of a container.
type container struct {
	Name          string
	RestartPolicy string
	Env           []variable
	Ports         []struct{ ContainerPort int }
}

type variable struct {
	Name      string          `json:"name"`
	Value     string          `json:"value"`
	ValueFrom json.RawMessage `json:"valueFrom,omitempty"`
}

func (p *pod) windows() bool {
	return p.Spec.OS.Name == "windows" || p.Spec.NodeSelector["kubernetes.io/os"] == "windows"
}

// initContainer returns the place of an init container, or -1.
func (p *pod) initContainer(name string) int {
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == name {
			return i
		}
	}
	return -1
}

func (p *pod) hasContainer(name string) bool {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return true
		}
	}
	return false
}

func (p *pod) hasVolume(name string) bool {
	for _, v := range p.Spec.Volumes {
		if v.Name == name {
			return true
		}
	}
	return false
}
