package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json" // which tells integers from fractions
)

// convertReview answers a ConversionReview.
func convertReview(body []byte) (call, any, error) {
	var review apiextensionsv1.ConversionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return call{}, nil, fmt.Errorf("read the review: %w", err)
	}
	req := review.Request
	if req == nil {
		return call{}, nil, errors.New("read the review: no request in it")
	}
	k := call{operation: "CONVERT", answer: "ok"}
	resp := &apiextensionsv1.ConversionResponse{UID: req.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range req.Objects {
		obj := &unstructured.Unstructured{}
		err := utiljson.Unmarshal(raw.Raw, &obj.Object)
		if err == nil {
			k.resource = strings.ToLower(obj.GetKind()) + "s." + obj.GroupVersionKind().Group
			err = convert(obj, req.DesiredAPIVersion)
		}
		if err != nil {
			k.answer = "failed"
			resp.ConvertedObjects = nil
			resp.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		resp.ConvertedObjects = append(resp.ConvertedObjects, runtime.RawExtension{Object: obj})
	}
	return k, &apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: resp}, nil
}

// convert turns obj into another version of its kind. A Gizmo's v1alpha1 has
// spec.size "3x4" where v1 has spec.width and spec.height; of all other kinds
// only the version changes.
func convert(obj *unstructured.Unstructured, to string) error {
	from := obj.GroupVersionKind()
	gv, err := schema.ParseGroupVersion(to)
	if err != nil {
		return err
	}
	if gv.Group != from.Group {
		return fmt.Errorf("convert %s to group %q: groups differ", from, gv.Group)
	}
	obj.SetAPIVersion(to)
	if from.Kind != "Gizmo" || from.Version == gv.Version {
		return nil
	}
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
	if spec == nil {
		return nil
	}
	if gv.Version == "v1alpha1" {
		joinSize(spec)
	} else if err := splitSize(spec); err != nil {
		return fmt.Errorf("convert Gizmo %q: %w", obj.GetName(), err)
	}
	return unstructured.SetNestedMap(obj.Object, spec, "spec")
}

func joinSize(spec map[string]any) {
	w, okW, _ := unstructured.NestedInt64(spec, "width")
	h, okH, _ := unstructured.NestedInt64(spec, "height")
	if okW || okH {
		spec["size"] = fmt.Sprintf("%dx%d", w, h)
	}
	delete(spec, "width")
	delete(spec, "height")
}

func splitSize(spec map[string]any) error {
	size, ok := spec["size"].(string)
	if !ok {
		return nil
	}
	ws, hs, _ := strings.Cut(size, "x")
	w, errW := strconv.ParseInt(ws, 10, 64)
	h, errH := strconv.ParseInt(hs, 10, 64)
	if err := errors.Join(errW, errH); err != nil {
		return fmt.Errorf("spec.size %q is not WIDTHxHEIGHT: %w", size, err)
	}
	delete(spec, "size")
	spec["width"], spec["height"] = w, h
	return nil
}
