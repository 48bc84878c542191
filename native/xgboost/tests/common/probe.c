/* Makes socket calls as XGBoost's library does: through slots of its own. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sends all of it; 0, or an error number. */
int probe_send_all(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t count = send(fd, bytes, length, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes += count;
    length -= (size_t)count;
  }
  return 0;
}

/* Waits with poll, then receives, until all of it is there; 0, an error number, or -1 at the end of the stream. */
int probe_receive_all(int fd, char *room, size_t length) {
  while (length > 0) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    if (poll(&one, 1, -1) < 0 && errno != EINTR) return errno;
    ssize_t count = recv(fd, room, length, 0);
    if (count == 0) return -1;
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    room += count;
    length -= (size_t)count;
  }
  return 0;
}

/* One call each, as XGBoost makes them on a descriptor that poll found ready: the count, or minus an error number. */
long probe_receive_once(int fd, char *room, size_t length) {
  ssize_t count = recv(fd, room, length, 0);
  return count < 0 ? -(long)errno : (long)count;
}

long probe_send_once(int fd, const char *bytes, size_t length) {
  ssize_t count = send(fd, bytes, length, MSG_NOSIGNAL);
  return count < 0 ? -(long)errno : (long)count;
}

int probe_close(int fd) { return close(fd); }
