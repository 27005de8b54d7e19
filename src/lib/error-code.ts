/** The system's name of a failure, e.g. ENOENT; undefined when it is no such error. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** What anything that was thrown says. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Descriptors, memory, processes, buffers, local ports. */
const shortages: readonly (string | undefined)[] = ["EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "ENOBUFS", "EADDRNOTAVAIL"];

/**
 * This process or the machine lacks something for now: a look that failed so has found nothing out, and a connection that
 * failed so says nothing about the server.
 */
export function isShortage(error: unknown): boolean {
  return shortages.includes(errorCode(error));
}
