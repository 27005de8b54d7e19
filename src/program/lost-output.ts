import { writeFileSync } from "node:fs";

let isService = false;

/** From now on this process ignores a lost output, since engines depend on it. */
export function goOnWithoutReaders(): void {
  isService = true;
}

/**
 * Decides the meaning of a broken pipe or a terminal that is gone: a service continues, a command ends quietly (as
 * before `| head`).
 */
export function watchOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: Error & { code?: string }) => {
      if (isService) return;
      if (error.code === "EPIPE") process.exit(0);
      // When standard error itself is full there is no place for the message.
      if (stream === process.stdout)
        writeFileSync(2, `output.failed: ${error.message}\nmake room where the output goes\n`);
      process.exit(1);
    });
  }
}
