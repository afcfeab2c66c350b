/* Stands in for the kernel's IPMI driver at its ioctls: preload it, and any file is a /dev/ipmiN.
   Built against the kernel's own header, so that sizes, offsets and numbers are the real ones.
   DCMI_TEST_BMC names a file with a completion code (hex), a state byte (hex) and watts: "00 40 345".
   Each answer comes after a stale one of an older question. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/ipmi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

static long msgid;
static int pending;

static int refuse(int number) {
    errno = number;
    return -1;
}

static int take(const struct ipmi_req *request) {
    const struct ipmi_system_interface_addr *address = (const void *)request->addr;
    static const unsigned char expected[] = {0xdc, 0x01, 0x00, 0x00};
    if (request->addr_len != sizeof *address || address->addr_type != IPMI_SYSTEM_INTERFACE_ADDR_TYPE ||
        address->channel != IPMI_BMC_CHANNEL || request->msg.netfn != 0x2c || request->msg.cmd != 0x02 ||
        request->msg.data_len != sizeof expected || memcmp(request->msg.data, expected, sizeof expected))
        return refuse(EINVAL);
    msgid = request->msgid;
    pending = 2;
    return 0;
}

static int give(struct ipmi_recv *answer) {
    unsigned code = 0, state = 0, watts = 0;
    FILE *file = fopen(getenv("DCMI_TEST_BMC"), "r");
    if (!pending || !file || fscanf(file, "%x %x %u", &code, &state, &watts) != 3 || answer->msg.data_len < 19)
        return refuse(EAGAIN);
    fclose(file);
    unsigned char *data = answer->msg.data;
    int stale = pending-- == 2;
    unsigned now = (unsigned)time(NULL);
    if (stale) watts = 9999;
    memset(data, 0, 19);
    data[0] = code, data[1] = 0xdc, data[2] = watts & 0xff, data[3] = watts >> 8, data[18] = state;
    memcpy(data + 10, &now, 4);
    answer->recv_type = IPMI_RESPONSE_RECV_TYPE;
    answer->msgid = stale ? msgid - 1 : msgid;
    answer->msg.netfn = 0x2d, answer->msg.cmd = 0x02, answer->msg.data_len = code ? 1 : 19;
    return 0;
}

int ioctl(int descriptor, unsigned long number, ...) {
    va_list rest;
    va_start(rest, number);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (number == IPMICTL_SEND_COMMAND) return take(argument);
    if (number == IPMICTL_RECEIVE_MSG_TRUNC) return give(argument);
    int (*real)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    return real(descriptor, number, argument);
}
