package inject

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// A sidecar as small as can be, so that the dialogues can be read.
const small = `
container:
  name: oncegate
  image: oncegate:1
  restartPolicy: Always
  ports: [{name: oncegate-admin, containerPort: 9191}]
  env:
  - {name: LISTEN_ADDRESS, value: "127.0.0.1:9092"}
  - {name: ADMIN_ADDRESS, value: ":9191"}
  - {name: GOMEMLIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
  resources: {requests: {memory: 64Mi}}
  volumeMounts: [{name: oncegate-state, mountPath: /var/lib/oncegate}]
volumes: [{name: oncegate-state, emptyDir: {}}]
settings: {}
startAfter: [istio-init, istio-proxy]
`

// TestPods plays the dialogues: a pod, and what becomes of it. Of every pod
// that is injected, two things hold besides: asked again, nothing is changed;
// and what was in the pod is still there.
func TestPods(t *testing.T) {
	datadriven.Walk(t, "testdata/pods", func(t *testing.T, path string) {
		sidecar := sidecarOf(t, small)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "settings":
				sidecar.Settings = nil
				fromYAML(t, d.Input, &sidecar.Settings)
				return "ok\n"
			case "pod":
				return ask(t, sidecar, d.Input, d.HasArg("by-namespace"))
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func sidecarOf(t *testing.T, text string) *template {
	s := new(template)
	fromYAML(t, text, s)
	return s
}

func fromYAML(t *testing.T, text string, into any) {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(j, into); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, s *template, text string, byNamespace bool) string {
	t.Helper()
	object := map[string]any{"metadata": map[string]any{}} // as the API server always sends
	fromYAML(t, text, &object)
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	a, after := podAfter(t, s, raw, byNamespace)
	if a == nil {
		return string(after)
	}
	var out strings.Builder
	fmt.Fprintln(&out, a.outcome)
	for _, w := range a.warnings {
		fmt.Fprintln(&out, "warning:", w)
	}
	if len(a.patch) > 0 {
		out.WriteString(readable(t, s, after))
		b, again := podAfter(t, s, after, byNamespace)
		if b == nil || b.outcome != already || len(b.patch) != 0 {
			t.Errorf("asked again it is not left as it is: %+v %s", b, again)
		}
		stillThere(t, "", raw, after)
	}
	return out.String()
}

// podAfter returns the answer, and the pod with its patch; or nil, and why it
// is refused.
func podAfter(t *testing.T, s *template, raw []byte, byNamespace bool) (*answer, []byte) {
	t.Helper()
	var p pod
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	a, err := s.pod(&p, byNamespace)
	if err != nil {
		return nil, fmt.Appendf(nil, "refused: %v\n", err)
	}
	text, err := json.Marshal(a.patch)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.patch) == 0 {
		return a, raw
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(raw)
	if err != nil {
		t.Fatalf("the patch does not fit: %v\n%s", err, text)
	}
	return a, after
}

// readable prints a pod, of its sidecar only what the template does not say.
func readable(t *testing.T, s *template, text []byte) string {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	inits, _ := p["spec"].(map[string]any)["initContainers"].([]any)
	for _, one := range inits {
		c, _ := one.(map[string]any)
		if c["name"] != containerName {
			continue
		}
		env, _ := c["env"].([]any)
		fixed, _ := s.Container["env"].([]any)
		c["env"] = slices.DeleteFunc(env, func(v any) bool {
			return slices.ContainsFunc(fixed, func(f any) bool { return reflect.DeepEqual(f, v) })
		})
		for name, value := range s.Container {
			if name != "name" && reflect.DeepEqual(c[name], value) {
				delete(c, name)
			}
		}
	}
	var out strings.Builder
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(p); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// stillThere says whether everything of before is in after: fields by name,
// elements of a list by their own name, in their order. The value of a variable
// may have changed.
func stillThere(t *testing.T, path string, before, after []byte) {
	t.Helper()
	var b, a any
	if json.Unmarshal(before, &b) != nil || json.Unmarshal(after, &a) != nil {
		t.Fatal("no JSON")
	}
	missing(t, path, b, a)
}

func missing(t *testing.T, path string, before, after any) {
	t.Helper()
	switch b := before.(type) {
	case map[string]any:
		a, _ := after.(map[string]any)
		for name, value := range b {
			if strings.Contains(path, "env[") && name != "name" {
				continue
			}
			if a[name] == nil {
				t.Errorf("%s.%s is gone", path, name)
				continue
			}
			missing(t, path+"."+name, value, a[name])
		}
	case []any:
		a, _ := after.([]any)
		at := 0
		for i, value := range b {
			v, ok := value.(map[string]any)
			if !ok {
				missing(t, fmt.Sprintf("%s[%d]", path, i), value, a[i])
				continue
			}
			for at < len(a) && a[at].(map[string]any)["name"] != v["name"] {
				at++
			}
			if at == len(a) {
				t.Errorf("%s[%v] is gone, or in another order", path, v["name"])
				return
			}
			missing(t, fmt.Sprintf("%s[%v]", path, v["name"]), value, a[at])
		}
	default:
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%s was %v and is %v", path, before, after)
		}
	}
}
