"use strict";

const reference = document.getElementById("reference");
SwaggerUIBundle({ url: reference.dataset.schema, domNode: reference, deepLinking: true });
