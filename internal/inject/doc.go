// Package inject is the admission webhook that puts Oncegate into pods as a
// native sidecar: an init container that always restarts (KEP-753), which
// starts before the application, ends after it, and keeps no Job alive.
//
// It reads of a pod what it needs and answers with a JSON patch (RFC 6902), so
// fields that it has never heard of stay as they are. The types of k8s.io/api
// would make the binary larger by a quarter, controller-runtime by three
// quarters (docs/decisions.md).
package inject
