import { writeFileSync } from "node:fs";

let isService = false;

/** From now on this process does its work whether or not anybody reads what it writes: engines hang on it. */
export function goOnWithoutReaders(): void {
  isService = true;
}

/**
 * Decides what a broken pipe or a terminal that is gone means: a service goes on, a command ends quietly (`| head` has
 * had enough of it).
 */
export function watchOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: Error & { code?: string }) => {
      if (isService) return;
      if (error.code === "EPIPE") process.exit(0);
      // Nobody can be told where standard error itself is full.
      if (stream === process.stdout)
        writeFileSync(2, `output.failed: ${error.message}\nmake room where the output goes\n`);
      process.exit(1);
    });
  }
}
