// Matching: a history that the fuzzer makes up, beside the model of tests/unit/match.

#include "history.hpp"
#include "input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input input(data, size);
	History history([&input](u64 n) { return (n > 256 ? input.word() : input.byte()) % n; });

	try {
		while (!input.empty())
			history.step();
		history.drain();
	} catch (const Broken &broken) {
		must(false, broken.what());
	}
	return 0;
}
