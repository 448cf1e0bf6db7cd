package images

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// openWrites is how many writes a version of a tag may cause before it ends: usually that it waits or is pulled, and
// what the first attempt failed with. With the end that is three. Later attempts are written with the next change that
// is.
const openWrites = 2

// writes decides when a status is worth a write.
type writes struct {
	open map[Key]openTag
}

// openTag counts the writes of a tag that has not ended.
type openTag struct {
	version int64
	count   int
}

// due reports whether the next status is worth a write: a tag is new, left the spec, ended, was lost, or may still
// cause a write. It changes nothing.
func (w *writes) due(last, next v1beta1.NodeImageStatus) bool {
	if equality.Semantic.DeepEqual(last, next) {
		return false
	}
	before, after := tags(last), tags(next)
	if len(before) != len(after) || len(after) == 0 {
		return true
	}
	for key, tag := range after {
		previous, known := before[key]
		if !known || previous.Version != tag.Version || ended(previous) != ended(tag) {
			return true
		}
		if equality.Semantic.DeepEqual(previous, tag) {
			continue
		}
		if open := w.open[key]; ended(tag) || open.version != tag.Version || open.count < openWrites {
			return true
		}
	}
	return false
}

// written counts a write.
func (w *writes) written(last, next v1beta1.NodeImageStatus) {
	before, after := tags(last), tags(next)
	for key, tag := range after {
		previous, known := before[key]
		open := w.open[key]
		switch {
		case ended(tag):
			delete(w.open, key)
		case !known || previous.Version != tag.Version || ended(previous) || open.version != tag.Version:
			w.open[key] = openTag{version: tag.Version, count: 1}
		case !equality.Semantic.DeepEqual(previous, tag):
			open.count++
			w.open[key] = open
		}
	}
	maps.DeleteFunc(w.open, func(key Key, _ openTag) bool {
		_, wanted := after[key]
		return !wanted
	})
}

func ended(tag v1beta1.ImageTagStatus) bool {
	return tag.Phase == v1beta1.ImagePhaseSucceeded || tag.Phase == v1beta1.ImagePhaseFailed
}

// tags returns the tags of a status by their keys.
func tags(status v1beta1.NodeImageStatus) map[Key]v1beta1.ImageTagStatus {
	all := map[Key]v1beta1.ImageTagStatus{}
	for image, s := range status.ImageStatuses {
		for _, tag := range s.Tags {
			all[Key{Image: image, Tag: tag.Tag}] = tag
		}
	}
	return all
}
