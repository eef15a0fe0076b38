package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/model"
)

// parse reads every document of a YAML file into a value of its own.
func parse[T any](t *testing.T, file string) []T {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		var v T
		if err := yaml.Unmarshal([]byte(document), &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, v)
	}
	return all
}

type composition struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Build       string            `yaml:"build"`
		NetworkMode string            `yaml:"network_mode"`
		Volumes     []string          `yaml:"volumes"`
		Ports       []string          `yaml:"ports"`
		Environment map[string]string `yaml:"environment"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

var pinned = regexp.MustCompile(`^[\w./-]+:v?\d[\w.-]*$`)

// TestCompose: images are pinned, what is mounted exists, and ports are published on
// loopback only, since nothing of it asks for a password.
func TestCompose(t *testing.T) {
	base, more := parse[composition](t, "../docker-compose.yml")[0], parse[composition](t, "compose.yaml")[0]
	for name, s := range more.Services {
		if base.Services[name].Image == "" && !pinned.MatchString(s.Image) {
			t.Errorf("%s: the image %q is not pinned by a tag of its version", name, s.Image)
		}
		for _, v := range s.Volumes {
			host, _, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(host, ".") {
				if _, ok := more.Volumes[host]; !ok {
					t.Errorf("%s: there is no volume %q", name, host)
				}
				continue
			}
			// Relative to the first of the files.
			if _, err := os.Stat(filepath.Join("..", host)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is published to everybody", name, p)
			}
		}
		if other, ok := strings.CutPrefix(s.NetworkMode, "service:"); ok {
			if _, ok := base.Services[other]; !ok {
				t.Errorf("%s: there is no service %q to share a network with", name, other)
			}
			if len(s.Ports) > 0 {
				t.Errorf("%s: a service in another's network cannot publish ports", name)
			}
		}
	}
	if len(more.Services) == 0 {
		t.Error("no services")
	}
}

// TestPiecesFitTogether: what one file says of another is so.
func TestPiecesFitTogether(t *testing.T) {
	more := parse[composition](t, "compose.yaml")[0]
	prometheus := parse[struct {
		Rules []string `yaml:"rule_files"`
		Jobs  []struct {
			Name    string         `yaml:"job_name"`
			Every   model.Duration `yaml:"scrape_interval"`
			Statics []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}](t, "prometheus/prometheus.yml")[0]
	for _, file := range prometheus.Rules {
		if _, err := os.Stat(filepath.Join("prometheus", file)); err != nil {
			t.Error(err)
		}
	}
	targets := map[string][]string{}
	for _, job := range prometheus.Jobs {
		for _, s := range job.Statics {
			targets[job.Name] = append(targets[job.Name], s.Targets...)
		}
	}
	if got, want := targets["onceward"], more.Services["onceward"].Environment["ONCEWARD_ADMIN_LISTEN"]; len(got) != 1 || got[0] != want {
		t.Errorf("Prometheus scrapes %v, and Onceward listens on %s", got, want)
	}
	for _, host := range []string{"collector", "jaeger"} {
		if _, ok := more.Services[host]; !ok {
			t.Errorf("otel-collector.yaml and the environment name the host %s, which is no service", host)
		}
	}
	boards := parse[struct {
		Providers []struct {
			Options struct {
				Path string `yaml:"path"`
			} `yaml:"options"`
		} `yaml:"providers"`
	}](t, "grafana/provisioning/dashboards/onceward.yaml")[0]
	for _, p := range boards.Providers {
		if !strings.Contains(strings.Join(more.Services["grafana"].Volumes, " "), "./deploy/grafana/dashboards:"+p.Options.Path+":ro") {
			t.Errorf("Grafana looks for dashboards in %s, where nothing is mounted", p.Options.Path)
		}
	}
}

type manifest struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Spec struct {
		Selector map[string]any `yaml:"selector"`
		Template struct {
			Metadata struct {
				Labels map[string]string `yaml:"labels"`
			} `yaml:"metadata"`
			Spec struct {
				Grace      int         `yaml:"terminationGracePeriodSeconds"`
				Init       []container `yaml:"initContainers"`
				Containers []container `yaml:"containers"`
				Volumes    []struct {
					Name string `yaml:"name"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
		JobLabel  string `yaml:"jobLabel"`
		Endpoints []struct {
			Port string `yaml:"port"`
		} `yaml:"endpoints"`
	} `yaml:"spec"`
}

type container struct {
	Ports []struct {
		Name string `yaml:"name"`
	} `yaml:"ports"`
	Env []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
	Readiness probe `yaml:"readinessProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Mounts    []struct {
		Name string `yaml:"name"`
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTP struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
}

// TestKubernetes: probes are the pages that they should be, paths in the environment
// are mounted, and the operator gives the job the name that rules ask for.
func TestKubernetes(t *testing.T) {
	of := map[string]manifest{}
	for _, m := range parse[manifest](t, "kubernetes/onceward.yaml") {
		of[m.Kind] = m
	}
	pod := of["Deployment"].Spec.Template
	if len(pod.Spec.Containers) != 1 {
		t.Fatalf("want one container, not %d", len(pod.Spec.Containers))
	}
	c := pod.Spec.Containers[0]
	if c.Readiness.HTTP.Path != "/readyz" || c.Liveness.HTTP.Path != "/healthz" {
		t.Errorf("probes ask %q and %q: a process must not be restarted because its ledger is away", c.Readiness.HTTP.Path, c.Liveness.HTTP.Path)
	}
	if pod.Spec.Grace < 65 {
		t.Errorf("%d s to stop: want the drain delay and a minute more", pod.Spec.Grace)
	}
	ports, volumes := map[string]bool{}, map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, port := range []string{c.Readiness.HTTP.Port, c.Liveness.HTTP.Port, of["ServiceMonitor"].Spec.Endpoints[0].Port} {
		if !ports[port] {
			t.Errorf("there is no port %q", port)
		}
	}
	for _, m := range append(c.Mounts, pod.Spec.Init[0].Mounts...) {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %q", m.Name)
		}
	}
	for _, e := range c.Env {
		if !strings.HasPrefix(e.Value, "/etc/") {
			continue
		}
		mounted := false
		for _, m := range c.Mounts {
			mounted = mounted || e.Value == m.Path || strings.HasPrefix(e.Value, m.Path+"/")
		}
		if !mounted {
			t.Errorf("%s is %s, where nothing is mounted", e.Name, e.Value)
		}
	}
	if job := of["Service"].Metadata.Labels[of["ServiceMonitor"].Spec.JobLabel]; job != "onceward" {
		t.Errorf("the job will be called %q, and rules ask for onceward", job)
	}
	if _, ok := of["PodDisruptionBudget"]; !ok {
		t.Error("no PodDisruptionBudget")
	}
}
