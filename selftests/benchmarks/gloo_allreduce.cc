/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A competitor that the benchmark measures for comparison with the switch: gloo's ring AllReduce (SUM of
 * float32) over TCP, on the same hosts and links. The ranks find each other by files in DIRECTORY. Rank 0
 * prints one JSON object per size with the median time of a call, as inccl-perf measures it, and the CPU
 * time of all ranks per call.
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

using Clock = std::chrono::steady_clock;

static int environment(const char *name)
{
	const char *value = getenv(name);

	if (!value)
		throw std::runtime_error(std::string(name) + " is not set (run this in a lab)");
	return atoi(value);
}

/* The CPU time that all threads of this process have used. */
static double cpu_us()
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec * 1e6 + used.tv_nsec / 1e3;
}

/* An AllReduce of `count` elements by gloo's ring. */
template <typename T>
static std::unique_ptr<gloo::AllreduceOptions> ring(const std::shared_ptr<gloo::Context> &context, T *mine, T *sum,
						    size_t count)
{
	std::unique_ptr<gloo::AllreduceOptions> options(new gloo::AllreduceOptions(context));

	options->setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
	options->setReduceFunction([](void *to, const void *a, const void *b, size_t n) {
		gloo::sum<T>(static_cast<T *>(to), static_cast<const T *>(a), static_cast<const T *>(b), n);
	});
	options->setInput(mine, count);
	options->setOutput(sum, count);
	return options;
}

/* Measures one size. Throws if an element is not 1 + 2 + ... + ranks. */
static void run(const std::shared_ptr<gloo::Context> &context, size_t bytes, int warmup, int iterations)
{
	const size_t count = bytes / sizeof(float);
	const int ranks = context->size;
	std::vector<float> mine(count, context->rank + 1), sum(count);
	std::vector<double> took_us;
	const auto options = ring(context, mine.data(), sum.data(), count);
	double mine_us = 0, all_us = 0;

	for (int i = -warmup; i < iterations; i++) {
		if (!i)
			mine_us = cpu_us();
		const Clock::time_point start = Clock::now();
		gloo::allreduce(*options);
		if (i >= 0)
			took_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
	}
	mine_us = cpu_us() - mine_us;
	gloo::allreduce(*ring(context, &mine_us, &all_us, 1));
	for (float element : sum)
		if (element != static_cast<float>(ranks * (ranks + 1) / 2))
			throw std::runtime_error("an element is " + std::to_string(element));
	std::sort(took_us.begin(), took_us.end());
	if (!context->rank)
		printf("{\"bytes\":%zu,\"ranks\":%d,\"time_us\":%.1f,\"hosts_cpu_us\":%.1f}\n", bytes, ranks,
		       took_us[iterations / 2], all_us / iterations);
}

int main(int argc, char **argv)
try {
	if (argc < 5) {
		fprintf(stderr, "usage: gloo_allreduce DIRECTORY WARMUP ITERATIONS BYTES...\n");
		return 2;
	}
	gloo::transport::tcp::attr attr;
	attr.iface = "eth0";
	std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
	gloo::rendezvous::FileStore store(argv[1]);
	auto context = std::make_shared<gloo::rendezvous::Context>(environment("INCCL_RANK"),
								   environment("INCCL_WORLD_SIZE"));
	context->connectFullMesh(store, device);
	for (int i = 4; i < argc; i++)
		run(context, std::stoul(argv[i]), std::stoi(argv[2]), std::stoi(argv[3]));
	return 0;
} catch (const std::exception &e) {
	fprintf(stderr, "gloo_allreduce: %s\n", e.what());
	return 1;
}
