/** The system's name of a failure, e.g. ENOENT; undefined when it is no such error. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}
