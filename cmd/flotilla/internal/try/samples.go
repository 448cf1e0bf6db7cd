package try

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/flotilla-dev/flotilla/apis/apps/strict"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/samples"
)

// sample is one manifest and the file that it is from.
type sample struct {
	file   string
	object *unstructured.Unstructured
}

// readSamples returns the manifests to apply, in the order of the files' names. It is strict: a field that its kind
// does not have is an error, before anything is started.
func (o *options) readSamples() ([]sample, error) {
	if o.samples == "" {
		return parseSamples(samples.FS)
	}
	if info, err := os.Stat(o.samples); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("--samples %s is not a folder", o.samples)
	}
	return parseSamples(os.DirFS(o.samples))
}

func parseSamples(files fs.FS) ([]sample, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("find sample manifests: %w", err)
	}
	if len(names) == 0 {
		return nil, errors.New("the folder of --samples has no manifests (*.yaml)")
	}
	slices.Sort(names)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apps.AddToScheme, policy.AddToScheme,
		topology.AddToScheme, work.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("read the samples: %w", err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var all []sample
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read sample %s: %w", name, err)
		}
		objects, err := parse(decoder, text)
		if err != nil {
			// Decoders write over several lines; what is told here is one sentence.
			return nil, fmt.Errorf(
				"sample %s: %s; correct it, nothing was started",
				name,
				strings.Join(strings.Fields(err.Error()), " "),
			)
		}
		for _, object := range objects {
			all = append(all, sample{name, object})
		}
	}
	return all, nil
}

// parse reads the documents of a file. Kinds of other definitions than Kubernetes' and ours are left to the API server.
func parse(decoder runtime.Decoder, text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) == 0 {
			continue // comments only
		}
		if object.GetKind() == "" || object.GetAPIVersion() == "" {
			return nil, fmt.Errorf("document %d has no apiVersion or no kind", len(objects)+1)
		}
		what := fmt.Sprintf("%s %q", object.GetKind(), object.GetName())
		_, _, err = decoder.Decode(document, nil, nil)
		switch ours := strings.HasSuffix(object.GroupVersionKind().Group, "flotilla.dev") ||
			object.GroupVersionKind().Group == apps.GroupVersion.Group; {
		case err == nil:
			if err := templateMistakes(object); err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
		case runtime.IsNotRegisteredError(err) && ours:
			return nil, fmt.Errorf("%s: there is no kind %s in %s", what, object.GetKind(), object.GetAPIVersion())
		case runtime.IsNotRegisteredError(err):
		default:
			if wrong, ok := runtime.AsStrictDecodingError(err); ok {
				err = errors.New(sentence(wrong.Errors()))
			}
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		objects = append(objects, object)
	}
}

// templateMistakes returns what is wrong in the templates of an object. Decoding takes any template.
func templateMistakes(object *unstructured.Unstructured) error {
	data, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	found := strict.Templates(object.GetKind(), data)
	if len(found.Mistakes) > 0 {
		return found.Mistakes.ToAggregate()
	}
	if len(found.Unknown) > 0 {
		return fmt.Errorf("unknown field %q", found.Unknown[0])
	}
	return nil
}

func sentence(errs []error) string {
	var parts []string
	for _, err := range errs {
		parts = append(parts, err.Error())
	}
	return strings.Join(parts, ", ")
}
