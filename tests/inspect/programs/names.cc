// SPDX-License-Identifier: MIT
/* C++: namespaces, classes, templates, lambdas, exceptions, and what headers bring with them. */
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mark.h"

namespace bank {

static thread_local int calls;

template <typename T>
class Account {
public:
	explicit Account(T opening) : balance_(opening) {}

	__attribute__((noinline)) void deposit(T amount)
	{
		T seen = balance_;

		calls++;
		MARK("method"); /* at method */
		balance_ = seen + amount;
	}

	T balance() const { return balance_; }

private:
	T balance_;
};

struct Undo {
	~Undo() { MARK("unwinding"); /* at unwinding */ }
};

namespace {
__attribute__((noinline)) void refuse(const std::string &why)
{
	Undo undo;

	throw std::runtime_error(why);
} /* at the end */
} // namespace

} // namespace bank

int main(int, char **argv)
{
	/* The program's file has no name any more. */
	unlink(argv[0]);

	bank::Account<long> account(150);
	std::function<void(long)> pay = [&account](long amount) {
		account.deposit(amount); /* calls: pay */
		bank::calls++;
	};
	std::thread teller([&pay] { pay(10); }); /* calls: teller */
	std::vector<int> order{3, 1, 2};

	teller.join();
	try {
		bank::refuse("no money"); /* calls: refuse */
	} catch (const std::runtime_error &) {
		MARK("caught"); /* at caught */
	}
	return account.balance() == 160 ? 0 : 1;
}
