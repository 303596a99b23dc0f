// Package manifests checks the deployment files with the types of the programs that read them.
package manifests

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestComposeFileIsValid(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../compose.yaml"},
		cli.WithEnv([]string{"DB_PASSWORD=secret", "PROJECT=/srv/flows"}), cli.WithInterpolation(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"db", "server", "worker"} {
		if _, err := project.GetService(name); err != nil {
			t.Error(err)
		}
	}
	worker := project.Services["worker"]
	if worker.Image == "" || !worker.ReadOnly || worker.Volumes[0].Source != "/srv/flows" {
		t.Errorf("the worker does not have the shared settings: %+v", worker)
	}
	options, err = cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithInterpolation(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := options.LoadProject(context.Background()); err == nil {
		t.Error("the file loads without a password for the database")
	}
}

func TestKubernetesManifestsAreValid(t *testing.T) {
	raw, err := os.ReadFile("../kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var claims, selected, services []string
	pods := map[string]corev1.PodTemplateSpec{}
	for _, document := range bytes.Split(raw, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		decode := func(into any) {
			t.Helper()
			if err := yaml.UnmarshalStrict(document, into); err != nil {
				t.Errorf("%s: %v", kind.Kind, err)
			}
		}
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 PersistentVolumeClaim":
			var c corev1.PersistentVolumeClaim
			decode(&c)
			claims = append(claims, c.Name)
		case "apps/v1 Deployment":
			var d appsv1.Deployment
			decode(&d)
			pods[d.Name] = d.Spec.Template
			matches(t, d.Spec.Selector.MatchLabels, d.Spec.Template)
		case "policy/v1 PodDisruptionBudget":
			var b policyv1.PodDisruptionBudget
			decode(&b)
			matches(t, b.Spec.Selector.MatchLabels, pods[b.Name])
			selected = append(selected, b.Name)
		case "v1 Service":
			var s corev1.Service
			decode(&s)
			matches(t, s.Spec.Selector, pods["espalier-server"])
			services = append(services, s.Name)
		default:
			t.Errorf("%s %s is not expected", kind.APIVersion, kind.Kind)
		}
	}
	if len(pods) != 2 || len(selected) != 1 || len(services) != 1 {
		t.Errorf("%d deployments, %d budgets, %d services", len(pods), len(selected), len(services))
	}
	for name, pod := range pods {
		for _, v := range pod.Spec.Volumes {
			if c := v.PersistentVolumeClaim; c != nil && !slices.Contains(claims, c.ClaimName) {
				t.Errorf("%s uses the claim %q, which does not exist", name, c.ClaimName)
			}
		}
		for _, mount := range pod.Spec.Containers[0].VolumeMounts {
			if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("%s mounts the volume %q, which does not exist", name, mount.Name)
			}
		}
	}
}

func matches(t *testing.T, selector map[string]string, pod corev1.PodTemplateSpec) {
	t.Helper()
	for key, value := range selector {
		if pod.Labels[key] != value {
			t.Errorf("the selector %s=%s matches no pod", key, value)
		}
	}
}
