#include "gpu.h"


#define DONE_NS 0.5 /* less than this is rounding */

struct running {
    struct gpu_client *client;
    struct gpu_queue *queue;
    struct gpu_item *item;
    double room; /* KERNEL: part of the device it has; COPY: 1 when the engine is its own */
    double rate;
};

static struct gpu_item *head(struct gpu_queue *queue)
{
    return &queue->ring[queue->completed % GPU_QUEUE_DEPTH];
}

static void complete(struct gpu *gpu, struct gpu_client *client, struct gpu_queue *queue)
{
    struct gpu_item *item = head(queue);
    struct gpu_event *event = &client->event[item->event % GPU_EVENTS];
    if (item->kind == ITEM_EVENT && event->generation == item->generation)
        event->ns = gpu->now_ns;
    client->kernels += item->kind == ITEM_KERNEL;
    queue->completed += 1;
    queue->head_ns = gpu->now_ns;
    if (queue->completed == queue->submitted)
        client->busy &= ~(1u << (queue - client->queue));
}

/* Whether the head needs no engine and nothing else holds it back. */
static bool passes(const struct gpu_client *client, const struct gpu_queue *queue,
                   const struct gpu_item *item)
{
    switch (item->kind) {
    case ITEM_EVENT:
        return true;
    case ITEM_WAIT:
        return client->queue[item->wait_queue % GPU_QUEUES].completed >= item->wait_position;
    case ITEM_HOST:
        return queue->host_done > queue->completed;
    default:
        return false;
    }
}

static bool pass_queue(struct gpu *gpu, struct gpu_client *client, struct gpu_queue *queue)
{
    bool any = false;
    while (queue->completed < queue->submitted && passes(client, queue, head(queue))) {
        complete(gpu, client, queue);
        any = true;
    }
    return any;
}

#define EACH_BUSY_QUEUE(client, index, rest)                                                       \
    for (uint32_t rest = (client)->busy, index; rest && (index = (uint32_t)__builtin_ctz(rest), 1); \
         rest &= rest - 1)

#define EACH_BUSY_CLIENT(gpu, seat, others)                                                        \
    for (uint32_t others = (gpu)->busy, seat;                                                      \
         others && (seat = (uint32_t)__builtin_ctz(others), 1); others &= others - 1)

static bool pass_client(struct gpu *gpu, uint32_t seat)
{
    struct gpu_client *client = &gpu->client[seat];
    bool any = false;
    EACH_BUSY_QUEUE (client, index, rest)
        any |= pass_queue(gpu, client, &client->queue[index]);
    if (!client->busy)
        gpu->busy &= ~(1u << seat);
    return any;
}

/* Events, waits and host functions take no time; one may let another go. */
static void pass_all(struct gpu *gpu)
{
    for (bool again = true; again;) {
        again = false;
        EACH_BUSY_CLIENT (gpu, seat, others)
            again |= pass_client(gpu, seat);
    }
}

/* The kernels and copies at the heads of their queues, in the order in which they came there. */
static int heads(struct gpu *gpu, struct running *list)
{
    int count = 0;
    EACH_BUSY_CLIENT (gpu, seat, others) {
        struct gpu_client *client = &gpu->client[seat];
        EACH_BUSY_QUEUE (client, index, rest) {
            struct gpu_queue *queue = &client->queue[index];
            struct gpu_item *item = head(queue);
            if (item->kind > ITEM_COPY)
                continue;
            int at = count++;
            for (; at > 0 && list[at - 1].queue->head_ns > queue->head_ns; at--)
                list[at] = list[at - 1];
            list[at] = (struct running){.client = client, .queue = queue, .item = item};
        }
    }
    return count;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Rooms in order of arrival: who came first takes what it can fill, the next what is left. */
static void give_rooms(struct gpu *gpu, struct running *list, int count)
{
    double left = 1.0, own[GPU_CLIENTS] = {0};
    bool engine = false;
    for (struct running *each = list; each < list + count; each++) {
        double *mine = &own[each->client - gpu->client];
        if (each->item->kind == ITEM_COPY) {
            each->rate = each->room = !engine;
            engine = true;
            continue;
        }
        double allowed = each->client->share - *mine;
        each->room = least(least(each->item->width, left), allowed > 0 ? allowed : 0);
        left -= each->room;
        *mine += each->room;
    }
    for (struct running *each = list; each < list + count; each++)
        if (each->item->kind == ITEM_KERNEL) {
            double others = 1.0 - left - own[each->client - gpu->client];
            each->rate = each->room / (1.0 + gpu->contention * others);
        }
}

static void account(struct gpu *gpu, struct running *list, int count, double ns)
{
    bool any = false;
    struct gpu_client *seen[GPU_CLIENTS];
    int clients = 0;
    for (struct running *each = list; each < list + count; each++) {
        each->item->left -= each->rate * ns;
        if (each->item->kind == ITEM_COPY) {
            gpu->copy_ns += each->rate * ns;
            gpu->received_ns += each->rate * ns * each->item->width;
        }
        if (each->item->kind != ITEM_KERNEL || each->room <= 0)
            continue;
        any = true;
        gpu->sm_ns += each->room * ns;
        each->client->sm_ns += each->room * ns;
        int at = 0;
        while (at < clients && seen[at] != each->client)
            at++;
        if (at == clients) {
            seen[clients++] = each->client;
            each->client->busy_ns += ns;
        }
    }
    gpu->busy_ns += any ? ns : 0;
}

void gpu_advance(struct gpu *gpu, uint64_t now_ns)
{
    struct running list[GPU_CLIENTS * GPU_QUEUES];
    while (gpu->now_ns < now_ns) {
        pass_all(gpu);
        int count = heads(gpu, list);
        give_rooms(gpu, list, count);
        double step = (double)(now_ns - gpu->now_ns);
        for (struct running *each = list; each < list + count; each++)
            if (each->rate > 0 && each->item->left < each->rate * step)
                step = each->item->left / each->rate;
        step = step < 0 ? 0 : step;
        account(gpu, list, count, step);
        uint64_t whole = (uint64_t)(step + 0.999);
        gpu->now_ns = now_ns - gpu->now_ns < whole ? now_ns : gpu->now_ns + whole;
        for (struct running *each = list; each < list + count; each++)
            if (each->item->left <= DONE_NS)
                complete(gpu, each->client, each->queue);
    }
    pass_all(gpu);
}

uint64_t gpu_submit(struct gpu *gpu, uint32_t client, uint32_t queue, struct gpu_item item)
{
    struct gpu_client *owner = &gpu->client[client];
    struct gpu_queue *to = &owner->queue[queue];
    if (to->submitted - to->completed == GPU_QUEUE_DEPTH)
        return 0;
    to->ring[to->submitted % GPU_QUEUE_DEPTH] = item;
    if (to->submitted == to->completed)
        to->head_ns = gpu->now_ns;
    to->submitted += 1;
    owner->busy |= 1u << queue;
    gpu->busy |= 1u << client;
    return to->submitted;
}

double gpu_least_ns(const struct gpu *gpu, uint32_t client, uint32_t queue, uint64_t position)
{
    const struct gpu_client *owner = &gpu->client[client];
    const struct gpu_queue *of = &owner->queue[queue];
    double total = 0;
    for (uint64_t at = of->completed; at < position && at < of->submitted; at++) {
        const struct gpu_item *item = &of->ring[at % GPU_QUEUE_DEPTH];
        if (item->kind == ITEM_KERNEL)
            total += item->left / least(item->width, owner->share);
        else if (item->kind == ITEM_COPY)
            total += item->left;
    }
    return total;
}

uint32_t gpu_in_flight(const struct gpu_client *client)
{
    uint32_t total = 0;
    EACH_BUSY_QUEUE (client, index, rest) {
        const struct gpu_queue *queue = &client->queue[index];
        for (uint64_t at = queue->completed; at < queue->submitted; at++)
            total += queue->ring[at % GPU_QUEUE_DEPTH].kind <= ITEM_HOST;
    }
    return total;
}

void gpu_drop(struct gpu_client *client)
{
    EACH_BUSY_QUEUE (client, index, rest)
        client->queue[index].completed = client->queue[index].submitted;
    client->busy = 0;
}

void gpu_begin(struct gpu_client *client, double share)
{
    gpu_drop(client);
    client->share = share;
    client->kernels = 0;
    client->sm_ns = client->busy_ns = 0;
}
