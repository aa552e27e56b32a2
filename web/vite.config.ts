import { defineConfig } from "vitest/config";

/** The controller that `npm run dev` shows. */
const controller = process.env["SLUICE_API"] ?? "http://127.0.0.1:8653";

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    outDir: "dist",
    // `scripts/compress.mjs` removes old files: .gitignore, which keeps the folder in the checkout, has to stay.
    emptyOutDir: false,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: { proxy: { "/v1": controller, "/metrics": controller } },
  test: { include: ["src/**/*.test.ts"] },
});
