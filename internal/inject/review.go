package inject

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxReview bounds the body of a review. The API server takes requests of up to
// 3 MiB; a review holds an object and what it was before.
const maxReview = 8 << 20

// review is the AdmissionReview of admission.k8s.io/v1, as far as it is used.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID       string          `json:"uid"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Object    json.RawMessage `json:"object"`
}

type response struct {
	UID       string   `json:"uid"`
	Allowed   bool     `json:"allowed"`
	Status    *status  `json:"status,omitempty"`
	PatchType string   `json:"patchType,omitempty"`
	Patch     []byte   `json:"patch,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

type status struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// decide reads an object and says what becomes of it.
type decide func(object []byte) (*answer, error)

// webhook answers reviews by d. told learns of each.
func webhook(d decide, told func(*request, outcome, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in review
		if err := json.NewDecoder(io.LimitReader(r.Body, maxReview)).Decode(&in); err != nil {
			http.Error(w, fmt.Sprintf("the body is no AdmissionReview: %v", err), http.StatusBadRequest)
			return
		}
		if in.APIVersion != "admission.k8s.io/v1" || in.Kind != "AdmissionReview" || in.Request == nil {
			http.Error(w, fmt.Sprintf("the body is %s %s, has to be admission.k8s.io/v1 AdmissionReview with a request", in.APIVersion, in.Kind), http.StatusBadRequest)
			return
		}
		out := review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &response{UID: in.Request.UID}}
		a, err := d(in.Request.Object)
		if err == nil {
			told(in.Request, a.outcome, nil)
			err = out.Response.allow(a)
		} else {
			told(in.Request, refused, err)
		}
		if err != nil {
			out.Response.Status = &status{http.StatusUnprocessableEntity, "Invalid", "Oncegate: " + err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(out)
	}
}

func (r *response) allow(a *answer) error {
	if len(a.patch) > 0 {
		patch, err := json.Marshal(a.patch)
		if err != nil {
			return err
		}
		r.PatchType, r.Patch = "JSONPatch", patch
	}
	r.Allowed, r.Warnings = true, a.warnings
	return nil
}
