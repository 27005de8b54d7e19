/** The system's name of a failure, e.g. ENOENT; undefined for other errors. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** The message of any thrown value. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Shortages of descriptors, memory, processes, buffers and local ports. */
const shortages: readonly (string | undefined)[] = ["EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "ENOBUFS", "EADDRNOTAVAIL"];

/**
 * This process or the machine lacks a resource for now: a read that failed so has no result, and a connection that
 * failed so says nothing about the server.
 */
export function isShortage(error: unknown): boolean {
  return shortages.includes(errorCode(error));
}
