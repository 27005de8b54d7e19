/** The programs whose configuration `berth config import` reads. */
export const sources = ["llama-swap", "llama-server", "ollama", "lm-studio", "compose"] as const;
export type Source = (typeof sources)[number];
