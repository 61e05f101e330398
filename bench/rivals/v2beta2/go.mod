// What k8s.io/api had until 0.35, as much of it as kubedog's dependencies name:
// helmfile links it, and the rivals share the newest Kubernetes libraries.
module k8s.io/api/autoscaling/v2beta2

go 1.26.0
