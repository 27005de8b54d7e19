/** How a program names its key: BERTH_TOKEN of its environment. The token itself is never written out. */
export const keyNames = {
  curl: '-H "authorization: Bearer $BERTH_TOKEN"',
  python: 'os.environ.get("BERTH_TOKEN") or "none"',
  javascript: 'process.env.BERTH_TOKEN || "none"',
} as const;
