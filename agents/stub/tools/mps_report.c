/* mps-report FILE [--restart | --terminate PID]: what the MPS server of the stand-in driver knows,
 * as JSON. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../driver/server.h"

static const char *const states[] = {"ACTIVE", "FAULT", "UNDEFINED"};

static void restart(struct server *server)
{
    server->state = SERVER_ACTIVE;
    server->restarts += 1;
    server->clients_seen = server->faults = 0;
    server->exits_released = server->exits_idle = server->exits_failed = 0;
    server->exits_unsafe = server->exits_in_flight = 0;
    server->over_watch = 0;
    server->peak_bytes = server->used_bytes;
    server->last_fault = 0;
    server->last_fault_pid = 0;
    server->last_unsafe_pid = 0;
    for (int seat = 0; seat < GPU_CLIENTS; seat++)
        server->client[seat].error = 0;
}

/* As `terminate_client` of the MPS control daemon: the client's work is dropped, it gets 810 from
 * now on, and its end is no longer an unsafe one. What it allocated returns when it has ended. */
static void terminate(struct server *server, uint32_t pid)
{
    for (int seat = 0; seat < GPU_CLIENTS; seat++) {
        struct server_client *client = &server->client[seat];
        if ((uint32_t)client->owner != pid || pid == 0)
            continue;
        gpu_drop(&server->gpu.client[seat]);
        client->unseen = 0;
        client->error = CUDA_ERROR_MPS_CLIENT_TERMINATED;
    }
}

static void print_client(const struct server *server, int seat, bool first)
{
    const struct server_client *client = &server->client[seat];
    const struct gpu_client *on = &server->gpu.client[seat];
    printf("%s{\"pid\": %u, \"contexts\": %u, \"error\": %d, \"used_bytes\": %lu, "
           "\"launches\": %lu, \"kernels_done\": %lu, \"in_flight\": %u, \"unseen\": %u, "
           "\"share\": %.2f, \"sm_ms\": %.3f, \"busy_ms\": %.3f}",
           first ? "" : ", ", (uint32_t)client->owner, client->contexts, client->error,
           client->used_bytes, client->launches, on->kernels, gpu_in_flight(on), client->unseen,
           on->share, on->sm_ns / 1e6, on->busy_ns / 1e6);
}

static void print(const struct server *server)
{
    printf("{\"state\": \"%s\", \"clients\": [", states[server->state]);
    bool first = true;
    for (int seat = 0; seat < GPU_CLIENTS; seat++)
        if (server->client[seat].owner) {
            print_client(server, seat, first);
            first = false;
        }
    printf("], \"clients_seen\": %lu, \"exits_released\": %lu, \"exits_idle\": %lu, "
           "\"exits_failed\": %lu, \"exits_unsafe\": %lu, \"exits_in_flight\": %lu, \"last_unsafe_pid\": %u, "
           "\"faults\": %lu, \"last_fault\": %d, \"last_fault_pid\": %u, \"restarts\": %u, ",
           server->clients_seen, server->exits_released, server->exits_idle, server->exits_failed,
           server->exits_unsafe, server->exits_in_flight, server->last_unsafe_pid, server->faults, server->last_fault,
           server->last_fault_pid, server->restarts);
    printf("\"capacity_bytes\": %lu, \"used_bytes\": %lu, \"peak_bytes\": %lu, "
           "\"over_watch\": %lu, \"busy_ms\": %.3f, \"sampled_ns\": %lu}\n",
           server->capacity_bytes, server->used_bytes, server->peak_bytes, server->over_watch,
           server->gpu.busy_ns / 1e6, server->sampled_ns);
}

int main(int count, char **arguments)
{
    bool anew = count == 3 && strcmp(arguments[2], "--restart") == 0;
    bool ending = count == 4 && strcmp(arguments[2], "--terminate") == 0;
    if (count != 2 && !anew && !ending) {
        fprintf(stderr, "usage: %s FILE [--restart | --terminate PID]\n", arguments[0]);
        return 2;
    }
    struct server *server = server_open(arguments[1]);
    if (!server) {
        fprintf(stderr, "%s: %s: %s\n", arguments[0], arguments[1], strerror(errno));
        return 1;
    }
    server_lock(server);
    server_sweep(server);
    if (anew)
        restart(server);
    if (ending)
        terminate(server, (uint32_t)strtoul(arguments[3], NULL, 10));
    print(server);
    server_unlock(server);
    return 0;
}
