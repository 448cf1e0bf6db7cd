package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports are taken below the range from which systems give ports to outgoing connections (32768 and up on Linux), so
// that nothing takes one between its reservation and its use.
const (
	lowestPort  = 12000
	highestPort = 32000
)

// Root returns the folder below which fleets of tests live, one per user of the machine.
func Root() string {
	return filepath.Join(os.TempDir(), "flotilla-fleets-"+strconv.Itoa(os.Getuid()))
}

// reservePorts takes n free TCP ports for the fleet in dir. A reservation lasts as long as dir exists. Fleets that
// start at the same time, also in different processes, get different ports.
func reservePorts(dir string, n int) ([]int, error) {
	var ports []int
	err := withPortTable(func(table map[int]string) error {
		for port, owner := range table {
			if _, err := os.Stat(owner); errors.Is(err, fs.ErrNotExist) {
				delete(table, port)
			}
		}
		const span = highestPort - lowestPort
		start := rand.IntN(span)
		for i := 0; i < span && len(ports) < n; i++ {
			port := lowestPort + (start+i)%span
			if _, taken := table[port]; taken || !portIsFree(port) {
				continue
			}
			table[port] = dir
			ports = append(ports, port)
		}
		if len(ports) < n {
			return fmt.Errorf("only %d of %d ports are free between %d and %d", len(ports), n, lowestPort, highestPort)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reserve ports for %s: %w", dir, err)
	}
	return ports, nil
}

// withPortTable runs change on the table port → fleet folder, alone on this machine, and stores the result.
func withPortTable(change func(map[int]string) error) error {
	if err := os.MkdirAll(Root(), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(Root(), "ports.json"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // closing also unlocks
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	table := map[int]string{}
	// A table that cannot be read counts as empty: every port is tried before it is given out.
	_ = json.NewDecoder(file).Decode(&table)
	if err := change(table); err != nil {
		return err
	}
	data, err := json.Marshal(table)
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(data, 0)
	return err
}

func portIsFree(port int) bool {
	// Both, because a listener on all addresses does not always hinder one on loopback.
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
