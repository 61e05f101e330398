package webhook

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ImageFault says how certain it is that a container does not get its image.
type ImageFault string

// The faults of images.
const (
	// ImageUnusable: its name cannot be read, or it is not on the node and must not
	// be pulled. Nothing but a change of the pod mends that.
	ImageUnusable ImageFault = "unusable"
	// ImageAbsent: it is not where its name says.
	ImageAbsent ImageFault = "absent"
	// ImageRefused: it cannot be pulled for another reason: a registry that wants a
	// password, or does not answer.
	ImageRefused ImageFault = "refused"
)

// absentImage are the words of registries and runtimes for an image that is not there,
// rather than one that they do not give.
var absentImage = []string{"not found", "manifest unknown", "name unknown", "does not exist", "no such host", "NotFound"}

// ImageFaultOf says why a container does not get its image; "" if it gets it, or nobody
// knows yet. The reasons are kubelet's (kubernetes/kubernetes pkg/kubelet/images/types.go).
func ImageFaultOf(c corev1.ContainerStatus) ImageFault {
	w := c.State.Waiting
	if w == nil {
		return ""
	}
	switch w.Reason {
	case "InvalidImageName", "ErrImageNeverPull":
		return ImageUnusable
	case "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable":
		if slices.ContainsFunc(absentImage, func(words string) bool { return strings.Contains(w.Message, words) }) {
			return ImageAbsent
		}
		return ImageRefused
	}
	return ""
}

// ImageFault says why nothing behind the Service can answer: none of its pods gets its
// image. It is that of the pod which is the likeliest to get it after all, and "" when there is
// no pod, or one that has its image.
func (b *Backing) ImageFault() ImageFault {
	order := []ImageFault{ImageUnusable, ImageAbsent, ImageRefused}
	likeliest := -1
	if b == nil || b.unread(Pods) != "" {
		return ""
	}
	for _, p := range b.Pods {
		if p.DeletionTimestamp != nil {
			continue
		}
		worst := len(order)
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if i := slices.Index(order, ImageFaultOf(c)); i >= 0 {
				worst = min(worst, i)
			}
		}
		if worst == len(order) {
			return ""
		}
		likeliest = max(likeliest, worst)
	}
	if likeliest < 0 {
		return ""
	}
	return order[likeliest]
}
