// Command gpu-device-plugin offers a host's device files to the kubelet as an extended resource, one device per file,
// and takes a device out of service when its file is gone.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	lookInterval    = time.Second
	registerTimeout = 5 * time.Second
)

// plugin serves a fixed list of device files, which need not all be there.
type plugin struct {
	api.UnimplementedDevicePluginServer
	files []string
}

// deviceID is the file's own name: nvidia3 for /dev/nvidia3.
func deviceID(file string) string { return filepath.Base(file) }

// devices says which files are there now.
func (p *plugin) devices() []*api.Device {
	list := make([]*api.Device, 0, len(p.files))
	for _, file := range p.files {
		health := api.Healthy
		if _, err := os.Stat(file); err != nil {
			health = api.Unhealthy
		}
		list = append(list, &api.Device{ID: deviceID(file), Health: health})
	}
	return list
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices at once and again whenever the health of one changes.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	var sent []string
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		list := p.devices()
		state := make([]string, 0, len(list))
		for _, device := range list {
			state = append(state, device.ID+" "+device.Health)
		}
		if !slices.Equal(state, sent) {
			log.Printf("devices: %s", strings.Join(state, ", "))
			if err := stream.Send(&api.ListAndWatchResponse{Devices: list}); err != nil {
				return err
			}
			sent = state
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (p *plugin) GetPreferredAllocation(
	context.Context, *api.PreferredAllocationRequest,
) (*api.PreferredAllocationResponse, error) {
	return &api.PreferredAllocationResponse{}, nil
}

// Allocate passes the device files and names them in NVIDIA_VISIBLE_DEVICES.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		answer := &api.ContainerAllocateResponse{}
		var indices []string
		for _, id := range container.DevicesIds {
			position := slices.IndexFunc(p.files, func(file string) bool { return deviceID(file) == id })
			if position < 0 {
				return nil, fmt.Errorf("device %s is not one of this host's", id)
			}
			file := p.files[position]
			answer.Devices = append(answer.Devices, &api.DeviceSpec{ContainerPath: file, HostPath: file, Permissions: "rw"})
			indices = append(indices, strings.TrimLeft(id, "abcdefghijklmnopqrstuvwxyz"))
		}
		slices.Sort(indices)
		answer.Envs = map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(indices, ",")}
		response.ContainerResponses = append(response.ContainerResponses, answer)
	}
	return response, nil
}

func (p *plugin) PreStartContainer(
	context.Context, *api.PreStartContainerRequest,
) (*api.PreStartContainerResponse, error) {
	return &api.PreStartContainerResponse{}, nil
}

// serve opens the socket and registers it; it returns when the context ends or the kubelet has removed the socket,
// as it does when it starts.
func (p *plugin) serve(ctx context.Context, folder, resource string) error {
	name := strings.ReplaceAll(resource, "/", "-") + ".sock"
	socket := filepath.Join(folder, name)
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	if err := register(ctx, folder, name, resource); err != nil {
		return err
	}
	log.Printf("registered %s with the kubelet", resource)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookInterval):
		}
		if _, err := os.Stat(socket); os.IsNotExist(err) {
			log.Print("the kubelet has started anew")
			return nil
		}
	}
}

func register(ctx context.Context, folder, endpoint, resource string) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	kubelet := "unix://" + filepath.Join(folder, "kubelet.sock")
	connection, err := grpc.NewClient(kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: resource}
	_, err = api.NewRegistrationClient(connection).Register(ctx, request)
	return err
}

func main() {
	folder := flag.String("folder", api.DevicePluginPath, "the kubelet's folder of device plugins")
	resource := flag.String("resource", "nvidia.com/gpu", "name of the extended resource")
	prefix := flag.String("prefix", "/dev/nvidia", "what the device files' names begin with")
	count := flag.Int("count", 8, "number of devices: prefix with 0, 1, ...")
	flag.Parse()
	files := make([]string, 0, *count)
	for number := range *count {
		files = append(files, fmt.Sprintf("%s%d", *prefix, number))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &plugin{files: files}
	for ctx.Err() == nil {
		if err := server.serve(ctx, *folder, *resource); err != nil {
			log.Printf("will try again: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookInterval):
		}
	}
}
