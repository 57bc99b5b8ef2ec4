// Loaded into PostgreSQL before its own libraries (LD_PRELOAD): a write or a sync
// of its log fails with EIO once, when a file of the call's name is in the directory
// that CONSIGN_EIO names. Whoever removes the file is the one whose call fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int strikes(int fd, const char *call) {
	char name[4096], link[64], file[4096];
	const char *dir = getenv("CONSIGN_EIO");
	if (dir == NULL)
		return 0;
	snprintf(name, sizeof name, "%s/%s", dir, call);
	if (access(name, F_OK) != 0)
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, file, sizeof file - 1);
	if (n < 0)
		return 0;
	file[n] = 0;
	return strstr(file, "/pg_wal/") != NULL && unlink(name) == 0;
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

int fdatasync(int fd) {
	if (strikes(fd, "sync")) {
		errno = EIO;
		return -1;
	}
	return REAL(int, "fdatasync", int)(fd);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
	if (strikes(fd, "write")) {
		errno = EIO;
		return -1;
	}
	return REAL(ssize_t, "pwrite", int, const void *, size_t, off_t)(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
	if (strikes(fd, "write")) {
		errno = EIO;
		return -1;
	}
	return REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t)(fd, data, size, at);
}

ssize_t pwritev(int fd, const struct iovec *data, int count, off_t at) {
	if (strikes(fd, "write")) {
		errno = EIO;
		return -1;
	}
	return REAL(ssize_t, "pwritev", int, const struct iovec *, int, off_t)(fd, data, count, at);
}
