package fakecri

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RegistryImage is an image that can be pulled.
type RegistryImage struct {
	// ID of the image on the node, such as sha256:….
	ID string
	// Username and Password are needed to pull it; empty: none.
	Username, Password string
}

// Push has the registry serve an image under a reference, as it is pulled.
func (s *Server) Push(reference string, image RegistryImage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registry[reference] = image
}

// AddImage has the node have an image already.
func (s *Server) AddImage(reference, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[reference] = id
}

// DropImage removes an image from the node, as the kubelet does when it needs the space.
func (s *Server) DropImage(reference string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.images, reference)
}

// Images returns the IDs of the images of the node by their references.
func (s *Server) Images() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.images)
}

// PullImage pulls what Push has added.
func (s *Server) PullImage(
	_ context.Context, r *runtimeapi.PullImageRequest,
) (*runtimeapi.PullImageResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reference := r.GetImage().GetImage()
	image, ok := s.registry[reference]
	switch {
	case !ok:
		return nil, status.Errorf(codes.NotFound, "%s: not found", reference)
	case r.GetAuth().GetUsername() != image.Username || r.GetAuth().GetPassword() != image.Password:
		return nil, status.Errorf(codes.Unauthenticated, "%s: 401 Unauthorized", reference)
	}
	s.images[reference] = image.ID
	return &runtimeapi.PullImageResponse{ImageRef: image.ID}, nil
}

// ListImages lists the images of the node, one for each ID.
func (s *Server) ListImages(
	context.Context, *runtimeapi.ListImagesRequest,
) (*runtimeapi.ListImagesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byID := map[string]*runtimeapi.Image{}
	response := &runtimeapi.ListImagesResponse{}
	for _, reference := range slices.Sorted(maps.Keys(s.images)) {
		id := s.images[reference]
		image := byID[id]
		if image == nil {
			image = &runtimeapi.Image{Id: id, Size: 1}
			byID[id] = image
			response.Images = append(response.Images, image)
		}
		if strings.Contains(reference, "@") {
			image.RepoDigests = append(image.RepoDigests, reference)
		} else {
			image.RepoTags = append(image.RepoTags, reference)
		}
	}
	return response, nil
}

// ImageStatus finds an image by its reference or its ID.
func (s *Server) ImageStatus(
	_ context.Context, r *runtimeapi.ImageStatusRequest,
) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := r.GetImage().GetImage()
	for reference, id := range s.images {
		if reference == wanted || id == wanted {
			return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: id, Size: 1}}, nil
		}
	}
	return &runtimeapi.ImageStatusResponse{}, nil
}

// RemoveImage removes an image by its reference.
func (s *Server) RemoveImage(
	_ context.Context, r *runtimeapi.RemoveImageRequest,
) (*runtimeapi.RemoveImageResponse, error) {
	s.DropImage(r.GetImage().GetImage())
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo says nothing: clients ask whether the image service answers.
func (s *Server) ImageFsInfo(
	context.Context, *runtimeapi.ImageFsInfoRequest,
) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{}, nil
}
