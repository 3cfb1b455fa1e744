package kube

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestChart is the life of a release: before it, installed, with an injector
// that comes, rotates and goes, upgraded, and taken away.
func TestChart(t *testing.T) {
	create(t, namespaceOf(namespace, nil, nil))
	create(t, namespaceOf("plain", nil, nil))
	port := freePort(t)

	t.Run("every topology is taken by the API server", everyTopology)
	helm(t, "install", release, chart, "--set", "upstream.brokers={kafka:9092}", "--set", fmt.Sprintf("injector.port=%d", port))
	t.Run("without an injector only pods that ask are refused", withoutInjector)

	reachable(t)
	first := startInjector(t, port, "20s")
	second := startInjector(t, freePort(t), "20s") // shares the certificate; no Service leads to it
	until(t, 20*time.Second, "a pod that asks is injected", func() bool { return dry(t, asking("plain", "first")) == nil })

	t.Run("pods", pods)
	t.Run("namespaces", namespaces)
	t.Run("a Job's pod", job)
	t.Run("under the restricted pod security standard", restricted)
	t.Run("the injector has no other rights", rights)
	t.Run("certificates are replaced unnoticed", rotation)
	t.Run("an upgrade leaves the certificate", func(t *testing.T) { upgrade(t, port) })
	first.stop(t)
	second.stop(t)
	t.Run("uninstall leaves nothing", uninstall)
}

// create makes an object.
func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := server.client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// dry asks whether an object would be taken, and as what: o is what came out.
func dry(t *testing.T, o client.Object) error {
	t.Helper()
	return server.client.Create(t.Context(), o, client.DryRunAll)
}

func namespaceOf(name string, labels, annotations map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}
}

func podOf(namespace, name string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name = namespace, name
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
	return p
}

// asking returns a pod that asks, with further annotations by pairs.
func asking(namespace, name string, more ...string) *corev1.Pod {
	p := podOf(namespace, name)
	p.Annotations = map[string]string{"oncegate.io/inject": "true"}
	for i := 0; i < len(more); i += 2 {
		p.Annotations["oncegate.io/"+more[i]] = more[i+1]
	}
	return p
}

// sidecar returns the sidecar of a pod as the API server keeps it.
func sidecar(p *corev1.Pod) *corev1.Container {
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.Name == "oncegate" && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			return c
		}
	}
	return nil
}

func everyTopology(t *testing.T) {
	for _, values := range []string{"injector", "injector-one-cluster", "injector-smallest", "injector-placed", "gateway", "gateway-scaled"} {
		text := helm(t, "template", release, chart, "-f", "../chart/topologies/"+values+".yaml", "--kube-version", "1.37.2")
		objects := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1<<20)
		n := 0
		for {
			var o unstructured.Unstructured
			if err := objects.Decode(&o); err != nil {
				break
			}
			if o.Object == nil {
				continue
			}
			if err := dry(t, &o); err != nil {
				t.Errorf("%s: %s %s: %v", values, o.GetKind(), o.GetName(), err)
			}
			n++
		}
		if w := warnings.taken(); len(w) > 0 {
			t.Errorf("%s: %v", values, w)
		}
		if n < 4 {
			t.Errorf("%s has %d objects", values, n)
		}
	}
}

func withoutInjector(t *testing.T) {
	until(t, 10*time.Second, "a pod that asks is refused", func() bool { return dry(t, asking("plain", "refused")) != nil })
	if err := dry(t, asking("plain", "refused")); err == nil || !strings.Contains(err.Error(), "pods.oncegate.io") {
		t.Errorf("%v", err)
	}
	no := podOf("plain", "no")
	no.Annotations = map[string]string{"oncegate.io/inject": "false"}
	for _, p := range []*corev1.Pod{podOf("plain", "says-nothing"), no} {
		if err := dry(t, p); err != nil || sidecar(p) != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	if err := dry(t, namespaceOf("another", nil, nil)); err != nil {
		t.Error(err)
	}
}

func pods(t *testing.T) {
	p := asking("plain", "asks", "bootstrap-env", "true", "files", "certificates", "env.LOG_LEVEL", "debug")
	p.Spec.InitContainers = []corev1.Container{{Name: "migrate", Image: "app"}}
	create(t, p)
	c := sidecar(p)
	if c == nil || p.Spec.InitContainers[0].Name != "oncegate" || len(p.Spec.InitContainers) != 2 {
		t.Fatalf("init containers: %+v", p.Spec.InitContainers)
	}
	if c.StartupProbe == nil || c.StartupProbe.HTTPGet.Path != "/readyz" || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("the sidecar is %+v", c)
	}
	if v := value(c.Env, "UPSTREAM_BROKERS"); v != "kafka:9092" {
		t.Errorf("UPSTREAM_BROKERS=%s", v)
	}
	if v := value(c.Env, "LOG_LEVEL"); v != "debug" {
		t.Errorf("LOG_LEVEL=%s", v)
	}
	for _, of := range [][]corev1.EnvVar{p.Spec.Containers[0].Env, p.Spec.InitContainers[1].Env} {
		if v := value(of, "KAFKA_BOOTSTRAP_SERVERS"); v != "127.0.0.1:9092" {
			t.Errorf("KAFKA_BOOTSTRAP_SERVERS=%s", v)
		}
	}
	if p.Labels["oncegate.io/injected"] != "true" || len(p.Spec.Volumes) != 2 {
		t.Errorf("labels %v, volumes %v", p.Labels, p.Spec.Volumes)
	}

	// The same pod again, as somebody copies it.
	again := p.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Namespace: "plain", Name: "copy", Annotations: p.Annotations, Labels: p.Labels}
	if err := dry(t, again); err != nil || len(again.Spec.InitContainers) != 2 || len(again.Spec.Volumes) != 2 {
		t.Errorf("%v: %+v", err, again.Spec)
	}

	if p := podOf("plain", "says-nothing"); dry(t, p) != nil || sidecar(p) != nil {
		t.Errorf("a pod that says nothing: %+v", p.Spec)
	}
	labelled := podOf("plain", "labelled")
	labelled.Labels = map[string]string{"oncegate.io/inject": "true"}
	if dry(t, labelled) != nil || sidecar(labelled) == nil {
		t.Error("a pod's label does not ask")
	}

	node := asking("plain", "node")
	node.Spec.HostNetwork = true
	if err := dry(t, node); err == nil || !strings.Contains(err.Error(), "choose free ones by the annotations") {
		t.Errorf("hostNetwork: %v", err)
	}
	node = asking("plain", "node", "env.LISTEN_ADDRESS", "127.0.0.1:19092", "env.ADMIN_ADDRESS", ":19191")
	node.Spec.HostNetwork = true
	if err := dry(t, node); err != nil || sidecar(node).Ports[0].ContainerPort != 19191 {
		t.Errorf("hostNetwork with ports: %v", err)
	}
	if err := dry(t, asking("plain", "typo", "upstream-broker", "x:1")); err == nil || !strings.Contains(err.Error(), "is for nothing: known are") {
		t.Errorf("a typo: %v", err)
	}
	if err := dry(t, func() *corev1.Pod {
		p := podOf("plain", "yes")
		p.Annotations = map[string]string{"oncegate.io/inject": "yes"}
		return p
	}()); err == nil || !strings.Contains(err.Error(), "accepted is true or false") {
		t.Errorf("yes: %v", err)
	}
	warnings.taken()
	windows := asking("plain", "windows")
	windows.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	if err := dry(t, windows); err != nil || sidecar(windows) != nil {
		t.Errorf("Windows: %v", err)
	}
	if w := warnings.taken(); len(w) != 1 || !strings.Contains(w[0], "Windows") {
		t.Errorf("Windows: warned of %q", w)
	}
}

func value(env []corev1.EnvVar, name string) string {
	for _, v := range env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

func namespaces(t *testing.T) {
	n := namespaceOf("annotated", nil, nil)
	create(t, n)
	annotate := func(value any) error {
		return server.client.Patch(t.Context(), n, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"oncegate.io/inject":%v}}}`, value)))
	}
	if err := annotate(`"true"`); err != nil {
		t.Fatal(err)
	}
	if n.Labels["oncegate.io/inject"] != "true" {
		t.Fatalf("labels: %v", n.Labels)
	}
	injected := func() bool {
		p := podOf("annotated", "pod")
		return dry(t, p) == nil && sidecar(p) != nil
	}
	until(t, 5*time.Second, "pods of an annotated namespace are injected", injected)
	no := podOf("annotated", "no")
	no.Annotations = map[string]string{"oncegate.io/inject": "false"}
	if dry(t, no) != nil || sidecar(no) != nil {
		t.Error("a pod that does not want to is injected")
	}
	if err := annotate(`"maybe"`); err == nil || !strings.Contains(err.Error(), "accepted is true or false") {
		t.Errorf("maybe: %v", err)
	}
	if err := annotate("null"); err != nil {
		t.Fatal(err)
	}
	if _, labelled := n.Labels["oncegate.io/inject"]; labelled {
		t.Errorf("labels: %v", n.Labels)
	}
	until(t, 5*time.Second, "pods of a namespace that is annotated no more are left alone", func() bool { return !injected() })

	created := namespaceOf("created-annotated", nil, map[string]string{"oncegate.io/inject": "true"})
	if err := dry(t, created); err != nil || created.Labels["oncegate.io/inject"] != "true" {
		t.Errorf("%v %v", err, created.Labels)
	}
}

// A Job makes its pod from its template; without a Job controller here, the
// test does. That a native sidecar keeps no Job alive is Kubernetes' promise
// (KEP-753); that the sidecar is one, and that the Job's pod is taken with it,
// is ours.
func job(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: "job"}}
	j.Spec.Template.Annotations = map[string]string{"oncegate.io/inject": "true"}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "work", Image: "work"}}
	create(t, j)
	yes := true
	p := &corev1.Pod{ObjectMeta: j.Spec.Template.ObjectMeta, Spec: j.Spec.Template.Spec}
	p.Namespace, p.GenerateName = "plain", "job-"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: &yes}}
	create(t, p)
	if sidecar(p) == nil || p.Spec.RestartPolicy != corev1.RestartPolicyNever || len(p.Spec.Containers) != 1 {
		t.Errorf("%+v", p.Spec)
	}
	if p.Spec.TerminationGracePeriodSeconds == nil || *p.Spec.TerminationGracePeriodSeconds != 30 {
		t.Errorf("grace %v", p.Spec.TerminationGracePeriodSeconds)
	}
}

func restricted(t *testing.T) {
	create(t, namespaceOf("restricted", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}, nil))
	if err := dry(t, asking("restricted", "loose")); !apierrors.IsForbidden(err) {
		t.Fatalf("the standard is not enforced: %v", err)
	}
	yes, no := true, false
	p := asking("restricted", "tight")
	p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no,
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if err := dry(t, p); err != nil || sidecar(p) == nil {
		t.Errorf("%v", err)
	}
}

func rights(t *testing.T) {
	c := as(t, injector)
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: injector}, &corev1.Secret{}); err != nil {
		t.Errorf("its own Secret: %v", err)
	}
	for what, err := range map[string]error{
		"all Secrets":    c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace)),
		"another Secret": c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "another"}, &corev1.Secret{}),
		"pods":           c.List(t.Context(), &corev1.PodList{}),
		"all webhooks":   c.List(t.Context(), &admissionv1.MutatingWebhookConfigurationList{}),
		"a new Secret":   c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}}),
		"deleting":       c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: injector}}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// current returns the certificate in the Secret, and what the API server
// trusts.
func current(t *testing.T) (certificate, trusted []byte) {
	t.Helper()
	var s corev1.Secret
	get(t, namespace, injector, &s)
	var w admissionv1.MutatingWebhookConfiguration
	get(t, "", injector, &w)
	for _, one := range w.Webhooks {
		if !bytes.Equal(one.ClientConfig.CABundle, w.Webhooks[0].ClientConfig.CABundle) {
			t.Errorf("webhooks trust different certificates")
		}
	}
	return s.Data["tls.crt"], w.Webhooks[0].ClientConfig.CABundle
}

// With certificates that live for 20 seconds, pods are injected all the time,
// and none is refused.
func rotation(t *testing.T) {
	seen := make(map[string]bool)
	n := 0
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		p := asking("plain", "pod")
		if err := dry(t, p); err != nil || sidecar(p) == nil {
			t.Fatalf("after %d pods and %d certificates: %v", n, len(seen), err)
		}
		n++
		certificate, trusted := current(t)
		if !bytes.Contains(trusted, certificate) {
			t.Fatalf("after %d pods: what is served is not trusted", n)
		}
		seen[string(certificate)] = true
	}
	if len(seen) < 3 {
		t.Errorf("%d certificates: nothing was shown", len(seen))
	}
	t.Logf("%d pods over %d certificates", n, len(seen))
}

func upgrade(t *testing.T, port int) {
	before, _ := current(t)
	helm(t, "upgrade", release, chart, "--set", "upstream.brokers={kafka:9093}", "--set", fmt.Sprintf("injector.port=%d", port), "--set", "injector.timeoutSeconds=3")
	var w admissionv1.MutatingWebhookConfiguration
	get(t, "", injector, &w)
	if *w.Webhooks[0].TimeoutSeconds != 3 {
		t.Error("nothing was upgraded")
	}
	after, trusted := current(t)
	if len(after) == 0 || !bytes.Contains(trusted, after) || !bytes.Contains(trusted, before) {
		t.Errorf("the upgrade took the certificate: %d bytes, %d trusted", len(after), len(trusted))
	}
	var s corev1.Service
	get(t, namespace, injector, &s)
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		reachable(t)
	}
	if p := asking("plain", "after"); dry(t, p) != nil || sidecar(p) == nil {
		t.Error("pods are not injected after the upgrade")
	}
	helm(t, "rollback", release, "1")
	if _, trusted := current(t); !bytes.Contains(trusted, after) {
		t.Error("the rollback took what is trusted")
	}
}

func uninstall(t *testing.T) {
	helm(t, "uninstall", release, "--wait")
	ours := client.MatchingLabels{"app.kubernetes.io/instance": release}
	for _, kind := range []string{
		"v1 ConfigMap", "v1 Secret", "v1 Service", "v1 ServiceAccount", "apps/v1 Deployment", "policy/v1 PodDisruptionBudget",
		"rbac.authorization.k8s.io/v1 Role", "rbac.authorization.k8s.io/v1 RoleBinding", "rbac.authorization.k8s.io/v1 ClusterRole",
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding", "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
	} {
		version, name, _ := strings.Cut(kind, " ")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(version)
		list.SetKind(name + "List")
		if err := server.client.List(t.Context(), list, ours); err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			t.Errorf("%s %s is left", name, o.GetName())
		}
	}
	var secrets corev1.SecretList
	if err := server.client.List(t.Context(), &secrets, client.InNamespace(namespace)); err != nil || len(secrets.Items) > 0 {
		t.Errorf("secrets are left: %v %v", err, names(secrets.Items))
	}
	// Nothing depends on what is gone.
	p := asking("plain", "later")
	until(t, 5*time.Second, "pods that ask are taken", func() bool { return dry(t, p.DeepCopy()) == nil })
	if err := dry(t, p); err != nil || sidecar(p) != nil {
		t.Errorf("%v", err)
	}
}

func names(secrets []corev1.Secret) (all []string) {
	for i := range secrets {
		all = append(all, secrets[i].Name)
	}
	slices.Sort(all)
	return all
}
