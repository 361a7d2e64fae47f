/* mark SOCKET: says that it runs, by one empty datagram, and ends. Whoever waits there takes the time. */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char** argv) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  if (argc != 2 || strlen(argv[1]) >= sizeof to.sun_path) return 2;
  strcpy(to.sun_path, argv[1]);
  int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  return fd >= 0 && sendto(fd, "", 1, 0, (struct sockaddr*)&to, sizeof to) == 1 ? 0 : 1;
}
