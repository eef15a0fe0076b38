package definition

import (
	"fmt"
	"reflect"
	"strings"
)

// EachProof calls do for every part of a provider or action that says where it
// comes from, with the path of its field.
func EachProof(value any, do func(field string, proof Proof)) {
	eachProof(reflect.ValueOf(value), "", do)
}

func eachProof(v reflect.Value, field string, do func(string, Proof)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachProof(v.Elem(), field, do)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachProof(v.Index(i), fmt.Sprintf("%s[%d]", field, i), do)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if proof, ok := v.Field(i).Interface().(Proof); ok {
				do(field, proof)
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name != "" && name != "-" {
				eachProof(v.Field(i), strings.TrimPrefix(field+"."+name, "."), do)
			}
		}
	}
}

// proofs wants sources that are documents of the provider.
func (c *checker) proofs(value any, documents map[string]Document) {
	EachProof(value, func(field string, proof Proof) {
		if proof.Source == "" {
			if proof.Section != "" {
				c.fault(field+".section", "goes with a source: in which document is it?")
			}
			return
		}
		if _, known := documents[proof.Source]; !known {
			c.fault(field+".source", "the provider has no document %q", proof.Source)
		}
		if proof.Unverified {
			c.fault(field+".unverified", "is at odds with a source")
		}
	})
}

// secrets wants each reference to name one place.
func (c *checker) secrets(p *Provider) {
	eachSecret(reflect.ValueOf(p), "", c.secretReference)
}

// Secrets returns every reference to a secret that a provider has, by field.
func (p *Provider) Secrets() map[string]Secret {
	out := map[string]Secret{}
	eachSecret(reflect.ValueOf(p), "", func(field string, s Secret) { out[field] = s })
	return out
}

func eachSecret(v reflect.Value, field string, do func(string, Secret)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachSecret(v.Elem(), field, do)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachSecret(v.Index(i), fmt.Sprintf("%s[%d]", field, i), do)
		}
	case reflect.Struct:
		if s, ok := v.Interface().(Secret); ok {
			do(field, s)
			return
		}
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			if name != "" && name != "-" {
				eachSecret(v.Field(i), strings.TrimPrefix(field+"."+name, "."), do)
			}
		}
	}
}
