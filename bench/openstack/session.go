package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// session is a login to a cloud. The bench inspects the cloud through it and never through the counting proxy, so neither side's library
// influences the judgement.
type session struct {
	client  *http.Client
	auth    credentials
	token   string
	project string            // ID of the token's project
	catalog map[string]string // base address by service type
}

// credentials are a cloud's credentials from clouds.yaml.
type credentials struct {
	AuthURL       string `yaml:"auth_url"`
	Username      string `yaml:"username"`
	Password      string `yaml:"password"`
	Project       string `yaml:"project_name"`
	UserDomain    string `yaml:"user_domain_name"`
	ProjectDomain string `yaml:"project_domain_name"`
	region        string // region of the services; not part of the credentials in clouds.yaml
}

// object is a JSON object of the APIs.
type object = map[string]any

// readCloud returns the credentials of a cloud of a clouds.yaml.
func readCloud(file, name string) (credentials, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return credentials{}, err
	}
	var doc struct {
		Clouds map[string]struct {
			Auth   credentials `yaml:"auth"`
			Region string      `yaml:"region_name"`
		} `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return credentials{}, fmt.Errorf("%s: %w", file, err)
	}
	c, ok := doc.Clouds[name]
	if !ok {
		return credentials{}, fmt.Errorf("%s has no cloud %q", file, name)
	}
	c.Auth.AuthURL = strings.TrimSuffix(strings.TrimSuffix(c.Auth.AuthURL, "/"), "/v3") + "/v3"
	c.Auth.region = c.Region
	return c.Auth, nil
}

// login logs in with a password.
func login(ctx context.Context, c credentials) (*session, error) {
	s := &session{client: &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{}}, auth: c, catalog: map[string]string{}}
	domain := func(name string) object { return object{"name": name} }
	body := object{"auth": object{
		"identity": object{"methods": []string{"password"}, "password": object{
			"user": object{"name": c.Username, "password": c.Password, "domain": domain(c.UserDomain)},
		}},
		"scope": object{"project": object{"name": c.Project, "domain": domain(c.ProjectDomain)}},
	}}
	var answer struct {
		Token struct {
			Project struct{ ID string }
			Catalog []struct {
				Type      string
				Endpoints []struct{ Interface, Region, URL string }
			}
		}
	}
	header, err := s.call(ctx, http.MethodPost, c.AuthURL+"/auth/tokens", body, &answer)
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", c.Username, err)
	}
	s.token, s.project = header.Get("X-Subject-Token"), answer.Token.Project.ID
	for _, service := range answer.Token.Catalog {
		for _, e := range service.Endpoints {
			if e.Interface == "public" && (c.region == "" || e.Region == c.region) {
				s.catalog[service.Type] = strings.TrimSuffix(e.URL, "/")
			}
		}
	}
	s.catalog["identity"] = c.AuthURL
	return s, nil
}

// by sends all further calls through a proxy.
func (s *session) by(proxy string) error {
	u, err := url.Parse(proxy)
	if err != nil {
		return err
	}
	s.client.Transport = &http.Transport{Proxy: http.ProxyURL(u)}
	return nil
}

// address returns the base address of a service, with its version.
func (s *session) address(service, version string) (string, error) {
	names := []string{service}
	if service == "block-storage" {
		names = []string{"block-storage", "volumev3"}
	}
	for _, n := range names {
		if base := s.catalog[n]; base != "" {
			if !strings.Contains(base, "/v") {
				base += "/" + version
			}
			return base, nil
		}
	}
	return "", fmt.Errorf("the cloud's catalogue has no service of type %s", service)
}

// errGone is the error for status 404.
var errGone = errors.New("not found")

// call makes one request. into may be nil.
func (s *session) call(ctx context.Context, method, address string, body, into any) (http.Header, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Auth-Token", s.token)
	req.Header.Set("X-OpenStack-Nova-API-Version", "2.15") // the first version with soft anti-affinity
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, address, err)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s %s: %w", method, address, errGone)
	case resp.StatusCode >= 300:
		return nil, fmt.Errorf("%s %s: %s: %.300s", method, address, resp.Status, answer)
	case into == nil || len(answer) == 0:
		return resp.Header, nil
	}
	return resp.Header, json.Unmarshal(answer, into)
}

// list returns the objects that a service's collection holds under key.
func (s *session) list(ctx context.Context, service, version, path, key string) ([]object, error) {
	base, err := s.address(service, version)
	if err != nil {
		return nil, err
	}
	var answer map[string]json.RawMessage
	if _, err := s.call(ctx, http.MethodGet, base+path, nil, &answer); err != nil {
		return nil, err
	}
	var all []object
	return all, json.Unmarshal(answer[key], &all)
}

// text returns the string under a key of an object; several keys name a nested one ("a", "b").
func text(o object, keys ...string) string {
	for _, k := range keys[:len(keys)-1] {
		o, _ = o[k].(object)
	}
	switch v := o[keys[len(keys)-1]].(type) {
	case string:
		return v
	case float64:
		return fmt.Sprintf("%.0f", v)
	case bool:
		return fmt.Sprint(v)
	}
	return ""
}
