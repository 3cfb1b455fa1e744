package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Cached returns a folder of the cache, which is ONCEGATE_CACHE or the folder
// oncegate in the user's cache. A folder that isn't there yet is filled by
// build; processes that want the same folder wait for the first.
func Cached(name string, build func(dir string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, name)
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(final+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // which ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	// What is left by a build that was killed is never taken for the real one.
	partial := final + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return "", err
	}
	if err := build(partial); err != nil {
		return "", err
	}
	return final, os.Rename(partial, final)
}

func cacheDir() (string, error) {
	if dir := os.Getenv("ONCEGATE_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder (set ONCEGATE_CACHE): %w", err)
	}
	return filepath.Join(dir, "oncegate"), nil
}
