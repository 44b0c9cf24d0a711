// SPDX-License-Identifier: MIT
/*
 * Exceptions, thread-locals and templates, in three threads.
 *
 * Each thread counts in a thread-local, throws when it has got to its own
 * number, and catches that two calls further out.
 */
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace shapes {

thread_local int depth;
thread_local double area = 1.5;

struct Failed : std::runtime_error {
	int code;
	Failed(int code) : std::runtime_error("too deep"), code(code) {}
};

template <typename T> T grow(T value, int limit)
{
	depth++;
	area *= 2;
	if (depth == limit)
		throw Failed(limit);
	return grow(value + 1, limit) + 1;
}

class Worker {
public:
	explicit Worker(int limit) : limit(limit) {}
	void operator()()
	{
		try {
			result = grow(limit * 10, limit);
		} catch (const Failed &failed) {
			result = -failed.code;
		}
	}
	int result = 0;

private:
	int limit;
};

} // namespace shapes

int main()
{
	std::vector<shapes::Worker> workers;
	std::vector<std::thread> threads;

	for (int limit = 2; limit <= 4; limit++)
		workers.emplace_back(limit);
	for (auto &worker : workers)
		threads.emplace_back(std::ref(worker));
	for (auto &thread : threads)
		thread.join();
	int sum = 0;
	for (auto &worker : workers)
		sum += worker.result;
	std::printf("sum %d\n", sum);
	return sum == -9 ? 3 : 1;
}
